"""The metrics of a run, `metrics.jsonl`: one JSON object per line, each with its `update`."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gemax.runs.files import explain_write_errors, to_json, write_bytes

MAX_WAITING_LINES = 20_000
"""Beyond this many lines in memory, every second one is dropped."""
MAX_MESSAGES = 5
"""Damaged lines that are reported one by one."""
ADVICE = "Checkpoints are kept: free some space and resume the run."


class MetricsWriter:
    """Appends lines to a metrics file. While the disk is full, lines wait in memory and the run continues.

    Args:
        path: The metrics file.
        log: Called with messages when lines begin to wait, and when they are written.
    """

    def __init__(self, path: Path, log: Callable[[str], None]) -> None:
        self._path, self._log = path, log
        self._waiting: list[bytes] = []
        self._has_failed = False

    def write(self, update: int, metrics: Mapping[str, Any]) -> None:
        """Appends the metrics of one update, after those that wait."""
        self._waiting.append(_encode(update, metrics))
        if len(self._waiting) > MAX_WAITING_LINES:
            del self._waiting[1::2]
        self.flush()

    def flush(self) -> bool:
        """Writes the lines that wait. Returns whether none is left."""
        try:
            self._write_all()
        except OSError as error:
            if not self._has_failed:
                reason = f"cannot write to {self._path}: {error.strerror}"
                self._log(f"Warning: {reason}. Metrics wait in memory, and the run continues.")
            self._has_failed = True
            return False
        if self._has_failed:
            self._log(f"The metrics that waited are written to {self._path}.")
        self._has_failed = False
        return True

    def close(self) -> None:
        """Writes the lines that wait.

        Raises:
            OSError: They cannot be written.
        """
        with explain_write_errors(self._path, f"Metrics of the last updates are lost. {ADVICE}"):
            self._write_all()

    def _write_all(self) -> None:
        if self._waiting:
            append_lines(self._path, b"".join(self._waiting))
            self._waiting.clear()


def append_metrics(path: Path, update: int, metrics: Mapping[str, Any]) -> None:
    """Appends the metrics of one update as a line. If that fails, nothing of the line stays in the file."""
    with explain_write_errors(path, ADVICE):
        append_lines(path, _encode(update, metrics))


def append_lines(path: Path, lines: bytes) -> None:
    """Appends complete lines. If that fails, nothing of them stays in the file."""
    with path.open("ab", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        try:
            while lines:
                lines = lines[file.write(lines) :]
        except OSError:
            # An incomplete line would also damage the next one.
            file.truncate(end)
            raise


def _encode(update: int, metrics: Mapping[str, Any]) -> bytes:
    record = {"update": update} | to_json(metrics) | {"update": update}
    return json.dumps(record, allow_nan=False).encode() + b"\n"


def rewind_metrics(path: Path, update: int) -> list[str]:
    """Removes the lines after an update, so that a run resumed there logs each update once.

    Also removes unreadable lines, such as an incomplete last line. Returns messages about the first of those.
    """
    content = path.read_bytes() if path.exists() else b""
    kept, dropped = [], []
    for number, line in enumerate(content.split(b"\n"), start=1):
        record = _parse(line)
        if record is not None and record["update"] <= update:
            kept.append(line + b"\n")
        elif record is None and line:
            dropped.append(number)
    if b"".join(kept) != content:
        write_bytes(path, b"".join(kept))
    messages = [
        f"Dropped line {number} of {path}: it is incomplete or not a metrics record."
        for number in dropped[:MAX_MESSAGES]
    ]
    if len(dropped) > MAX_MESSAGES:
        messages.append(f"Dropped {len(dropped) - MAX_MESSAGES:,} more lines of {path} for the same reason.")
    return messages


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Returns all complete records. Ignores a last line that is still being written.

    Raises:
        ValueError: A line is damaged.
    """
    *lines, unfinished = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line and _parse(line) is None:
            raise ValueError(f"Line {number} of {path} is damaged. Resume the run to drop the line.")
    return [record for line in (*lines, unfinished) if (record := _parse(line)) is not None]


def read_last_metrics(path: Path, num_bytes: int = 2**16) -> dict[str, Any] | None:
    """Returns the last complete record, from the end of the file. None if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - num_bytes))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return None
    return next((record for line in reversed(lines) if (record := _parse(line)) is not None), None)


def _parse(line: bytes) -> dict[str, Any] | None:
    """Returns the record of a line, or None if the line is not a record."""
    try:
        # Other programs write NaN and Infinity into JSON.
        record = json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("update"), int) else None
