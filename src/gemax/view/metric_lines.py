"""Reads a selection of the lines of `metrics.jsonl`, so that large files of many runs are read in a moment."""

import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

MAX_WHOLE_BYTES = 256 * 1024
"""Smaller files are read as a whole. Of larger ones, lines at evenly spaced positions are read."""
MAX_LINE_BYTES = 64 * 1024
"""No line of metrics is as long as this."""


class MetricLines(NamedTuple):
    """Lines of metrics in order of their updates."""

    lines: list[dict[str, Any]]
    num_damaged: int = 0
    """Lines among those read that are not records. The last line of a file is not counted: it may be incomplete."""


def read_lines(path: Path, max_lines: int) -> MetricLines:
    """Reads at most `max_lines` lines, evenly spaced, with the first and the last one.

    Raises:
        OSError: The file cannot be read.
    """
    size = path.stat().st_size
    texts = _all_lines(path) if size <= MAX_WHOLE_BYTES else _spaced_lines(path, size, max_lines)
    records = [parse_line(text) for text in texts if text.strip()]
    num_damaged = sum(record is None for record in records[:-1])
    by_update = {record["update"]: record for record in records if record is not None}
    lines = [by_update[update] for update in sorted(by_update)]
    if len(lines) > max_lines:
        step = (len(lines) - 1) / (max_lines - 1)
        lines = [lines[round(index * step)] for index in range(max_lines)]
    return MetricLines(lines, num_damaged)


def parse_line(text: bytes) -> dict[str, Any] | None:
    """Returns the record of a line, or None if it is not one. NaN and infinity become None."""
    try:
        record = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    is_record = isinstance(record, dict) and type(record.get("update")) is int
    return record if is_record else None


def number(value: Any) -> float | None:
    """Returns a finite number with five digits, or None. JSON of browsers has no NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.5g}")


def _all_lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")


def _spaced_lines(path: Path, size: int, max_lines: int) -> list[bytes]:
    """Returns the first line that starts behind each of evenly spaced positions, and the last lines."""
    texts = []
    with path.open("rb") as file:
        for index in range(max_lines - 1):
            file.seek(position := index * size // max_lines)
            if position:
                file.readline(MAX_LINE_BYTES)  # the rest of a line
            texts.append(file.readline(MAX_LINE_BYTES))
        file.seek(-min(size, MAX_LINE_BYTES), os.SEEK_END)
        *_, before_last, last = [b"", *file.read().split(b"\n")]
    return [*texts, before_last, last]
