"""The metrics of a run, `metrics.jsonl`: one JSON object per line, each with its `update`."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemax.runs.files import explain_write_errors, to_json, write_bytes


def append_metrics(path: Path, update: int, metrics: Mapping[str, Any]) -> None:
    """Appends the metrics of one update as a line. If that fails, nothing of the line stays in the file."""
    record = {"update": update} | to_json(metrics) | {"update": update}
    line = json.dumps(record, allow_nan=False).encode() + b"\n"
    advice = "Checkpoints are kept: free some space and resume the run."
    with explain_write_errors(path, advice), path.open("ab", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        try:
            while line:
                line = line[file.write(line) :]
        except OSError:
            # An incomplete line would also damage the next one.
            file.truncate(end)
            raise


def rewind_metrics(path: Path, update: int) -> list[str]:
    """Removes the lines after an update, so that a run resumed there logs each update once.

    Also removes unreadable lines, such as an incomplete last line. Returns a message for each of those.
    """
    content = path.read_bytes() if path.exists() else b""
    kept, messages = [], []
    for number, line in enumerate(content.split(b"\n"), start=1):
        record = _parse(line)
        if record is not None and record["update"] <= update:
            kept.append(line + b"\n")
        elif record is None and line:
            messages.append(f"Dropped line {number} of {path}: it is incomplete or not a metrics record.")
    if b"".join(kept) != content:
        write_bytes(path, b"".join(kept))
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


def _parse(line: bytes) -> dict[str, Any] | None:
    """Returns the record of a line, or None if the line is not a record."""
    try:
        # Other programs write NaN and Infinity into JSON.
        record = json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("update"), int) else None
