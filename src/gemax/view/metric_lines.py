"""Reads a selection of the lines of `metrics.jsonl`, so that large files of many runs are read in a moment."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

MAX_WHOLE_BYTES = 256 * 1024
"""Smaller files are read as a whole. Of larger ones, lines at evenly spaced positions are read."""
MAX_LINE_BYTES = 64 * 1024
"""No line of metrics is as long as this."""


class LastRecord(NamedTuple):
    """The last record of a file, empty if there is none."""

    record: dict[str, Any]
    has_damaged_lines: bool
    """Whether lines among those read are not records. The last line is not counted: it may be incomplete."""


def read_last_record(path: Path) -> LastRecord:
    """Returns the last record, and whether lines before it are damaged.

    Raises:
        OSError: The file cannot be read.
    """
    last, has_damaged_lines, is_damaged = {}, False, False
    for record in read_records(path, max_lines=8):
        has_damaged_lines |= is_damaged
        is_damaged = record is None
        last = last if record is None else record
    return LastRecord(last, has_damaged_lines)


def read_curves(path: Path, names: Sequence[str], max_points: int) -> dict[str, list[float | None]]:
    """Returns the values of metrics at no more than `max_points` updates, the first and the last one among them.

    Raises:
        OSError: The file cannot be read.
    """
    records = (record for record in read_records(path, max_points) if record is not None)
    rows = {record["update"]: [number(record.get(name)) for name in names] for record in records}
    updates = _thinned(sorted(rows), max_points)
    return {name: [rows[update][column] for update in updates] for column, name in enumerate(names)}


def read_records(path: Path, max_lines: int) -> Iterator[dict[str, Any] | None]:
    """Yields the records of a small file, or no more than `max_lines` of a larger one, evenly spaced.

    Damaged lines yield None. Only one record is in memory at a time: a thousand of them take ten megabytes.

    Raises:
        OSError: The file cannot be read.
    """
    size = path.stat().st_size
    texts = _all_lines(path) if size <= MAX_WHOLE_BYTES else _spaced_lines(path, size, max_lines)
    return (parse_line(text) for text in texts if text.strip())


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


def _thinned(updates: list[int], max_points: int) -> list[int]:
    if len(updates) <= max_points:
        return updates
    step = (len(updates) - 1) / (max_points - 1)
    return [updates[round(index * step)] for index in range(max_points)]


def _all_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _spaced_lines(path: Path, size: int, max_lines: int) -> Iterator[bytes]:
    """Yields the first line that starts behind each of evenly spaced positions, and the last two lines."""
    with path.open("rb") as file:
        end = 0  # of the line before
        for index in range(max_lines - 2):
            file.seek(position := index * size // (max_lines - 2))
            if position:
                file.readline(MAX_LINE_BYTES)  # the rest of a line
            if file.tell() >= end:
                yield file.readline(MAX_LINE_BYTES)
                end = file.tell()
        file.seek(max(end, size - MAX_LINE_BYTES))
        yield from file.read().split(b"\n")[-2:]
