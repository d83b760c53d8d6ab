"""The run directory: all that a run leaves behind, and that every other verb reads.

It holds `config.json`, `metrics.jsonl`, `summary.json` and `checkpoints/`. One process at a time writes there, and
nowhere else.
"""

import contextlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gemax.runs.files import write_bytes, write_json
from gemax.runs.locks import locked

CONFIG = "config.json"
METRICS = "metrics.jsonl"
SUMMARY = "summary.json"
CHECKPOINTS = "checkpoints"
LOCK = "run.lock"
SINKS = ("tensorboard", "wandb")
LONGEST_NAME_BYTES = 255
"""What the usual file systems take for one name."""


@dataclass(frozen=True)
class RunDirectory:
    """The files of one run. To read them, make it from a path; to write them, `create_run` or `resume_run`."""

    path: Path
    messages: tuple[str, ...] = ()
    """What a user should know from opening it, such as a lock that a dead process left."""

    @property
    def checkpoints(self) -> Path:
        """The folder for `save_checkpoint` and `load_checkpoint`."""
        return self.path / CHECKPOINTS

    @property
    def metrics(self) -> Path:
        """The file for `read_metrics`."""
        return self.path / METRICS

    def read_config(self) -> dict[str, Any]:
        """What `create_run` was given."""
        return _read_json(self.path / CONFIG)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Says what repeats the run, in place of what was said before."""
        text = _exact_json(config)
        if not (self.path / CONFIG).is_file() or (self.path / CONFIG).read_bytes() != text:
            write_bytes(self.path / CONFIG, text)

    def read_summary(self) -> dict[str, Any]:
        """What `write_summary` was given last."""
        return _read_json(self.path / SUMMARY)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Says how the run stands, in place of what was said before."""
        write_json(self.path / SUMMARY, plain(summary))

    def append_metrics(self, update: int, metrics: Mapping[str, Any]) -> None:
        """Logs one update, and leaves either its whole line or none."""
        record = {"update": update} | plain(metrics) | {"update": update}
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        advice = "What was saved is kept: resume the run once there is room."
        with _explained(self.metrics, advice), self.metrics.open("ab", buffering=0) as file:
            end = file.tell()
            try:
                while line:
                    line = line[file.write(line) :]
            except OSError:
                # Half a line would spoil the next one too, should there be space again.
                file.truncate(end)
                raise

    def rewind_metrics(self, update: int) -> list[str]:
        """Forgets what was logged after an update, so that a run resumed there logs each update once.

        Lines that cannot be read, such as a last one cut short, go too. Each gives a message.
        """
        content = self.metrics.read_bytes() if self.metrics.exists() else b""
        kept, messages = [], []
        for number, line in enumerate(content.split(b"\n"), start=1):
            record = _record(line)
            if record is not None and record["update"] <= update:
                kept.append(line + b"\n")
            elif record is None and line:
                messages.append(f"Dropped line {number} of {self.metrics}: it is cut short or not a metric.")
        if b"".join(kept) != content:
            write_bytes(self.metrics, b"".join(kept))
        return messages


@contextlib.contextmanager
def create_run(path: Path, config: Mapping[str, Any]) -> Iterator[RunDirectory]:
    """Makes the directory of a new run, locked for this process until the block ends.

    Args:
        path: The directory itself. Its parent must be there.
        config: What alone repeats the run.

    Raises:
        ValueError: The path cannot name a run, or there is a run already.
        OSError: The directory cannot be written to.
    """
    _refuse_bad_names(path)
    _exact_json(config)  # what cannot be written is refused before anything is made
    if not path.parent.is_dir():
        raise ValueError(
            f"{path.parent} is not a folder. Create it first, or choose another place for the run."
        )
    with _opened(path) as run:
        refuse_earlier_run(path)
        with _explained(path):
            run.metrics.touch()
            # Last: a directory with a configuration is one that can be resumed.
            run.write_config(config)
        yield run


@contextlib.contextmanager
def resume_run(path: Path) -> Iterator[RunDirectory]:
    """Opens the directory of an earlier run to go on with it, locked for this process until the block ends.

    Raises:
        ValueError: There is no run, or another process is writing to it.
        OSError: The directory cannot be written to.
    """
    _refuse_bad_names(path)
    if not (path / CONFIG).is_file():
        raise ValueError(f"{path} holds no run to resume: {CONFIG} is missing.")
    with _opened(path) as run:
        yield run


def open_below(run: RunDirectory, name: str, config: Mapping[str, Any]) -> RunDirectory:
    """The directory of a run that is part of another one, whose lock speaks for both; made if it is not there yet.

    Raises:
        ValueError: It is a link, or something in it is.
        OSError: It cannot be written to.
    """
    path = run_path(run.path, name)
    with _explained(path):
        path.mkdir(exist_ok=True)
        _refuse_links(path)
        below = RunDirectory(path, tuple(_tidy(path)))
        below.metrics.touch()
        below.write_config(config)
    return below


def refuse_earlier_run(path: Path) -> None:
    """Refuses a place where there is anything that a new run would overwrite."""
    metrics, checkpoints = path / METRICS, path / CHECKPOINTS
    if (
        (path / CONFIG).exists()
        or (path / SUMMARY).exists()
        or (metrics.exists() and metrics.stat().st_size > 0)
        or (checkpoints.is_dir() and any(checkpoints.iterdir()))
    ):
        raise ValueError(f"{path} already holds a run. Resume it, or choose another place for the new one.")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All that a run has logged. A line that is still being written is left for the next time.

    Raises:
        ValueError: A line is damaged.
    """
    *lines, unfinished = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line and _record(line) is None:
            raise ValueError(f"Line {number} of {path} is damaged. Resuming the run drops it.")
    return [record for line in (*lines, unfinished) if (record := _record(line)) is not None]


def run_path(parent: Path, name: str) -> Path:
    """Where the run of that name is or will be. A name never leads out of its parent."""
    path = parent / name
    _refuse_bad_names(path)
    if name in ("", ".", "..") or "/" in name or "\\" in name:
        raise ValueError(f"A run is named without folders; got {name!r}.")
    if path.resolve() != parent.resolve() / name:
        raise ValueError(f"{path} is a link to {path.resolve()}. A run stays in its folder.")
    return path


def free_path(folder: Path, name: str) -> Path:
    """The first of NAME, NAME-2, NAME-3 … that is not taken."""
    path, number = folder / name, 2
    while path.exists():
        path, number = folder / f"{name}-{number}", number + 1
    return path


def check_writable(path: Path) -> None:
    """Finds out before anything is compiled whether a run can be made there.

    Raises:
        ValueError: It has a name that no run can have.
        OSError: It cannot.
    """
    _refuse_bad_names(path)
    there = _nearest(path)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise OSError(
            f"Cannot write to {path}: {there} is not a folder that can be written to. "
            "Choose another place for the run."
        )


def check_space(path: Path, needed_bytes: int) -> None:
    """Finds out before hours of training whether their result will fit on the disk.

    Raises:
        OSError: It will not.
    """
    free = shutil.disk_usage(_nearest(path)).free
    if free < needed_bytes:
        raise OSError(
            f"{path} has {free / 1e6:,.1f} MB of free space, but {needed_bytes / 1e6:,.1f} MB are needed. "
            "Free some, or choose another place."
        )


def plain(value: Any) -> Any:
    """What JSON can say of a value: arrays as numbers, and None for those that are not finite."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    array = np.asarray(value)
    if array.dtype.kind == "V":
        array = array.astype(np.float64)  # bfloat16 and its kin, which NumPy does not know as floats
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"JSON takes numbers, texts and lists of them; got {value!r} of {type(value).__name__}."
        )
    return plain(array.tolist())


# Files


def _record(line: bytes) -> dict[str, Any] | None:
    """A line of metrics, or None if it is not one."""
    try:
        # Other writers put NaN into JSON.
        record = json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("update"), int) else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it holds no JSON object.")
    return content


def _exact_json(config: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(dict(config), indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise ValueError(f"The configuration cannot be written as JSON: {error}.") from error


# Paths


def _nearest(path: Path) -> Path:
    """What is there of a path already."""
    return next(there for there in (path.absolute(), *path.absolute().parents) if there.exists())


def _refuse_bad_names(path: Path) -> None:
    for name in path.parts:
        if "\0" in name:
            raise ValueError(f"A path cannot hold the NUL character; got {str(path)!r}.")
        if len(os.fsencode(name)) > LONGEST_NAME_BYTES:
            raise ValueError(f"A name has at most {LONGEST_NAME_BYTES} bytes; {name[:20]!r}... is longer.")


def _refuse_links(path: Path) -> None:
    """Writing through a link would change files that are not the run's."""
    for name in (CONFIG, METRICS, SUMMARY, CHECKPOINTS, LOCK, *SINKS):
        if (path / name).is_symlink():
            raise ValueError(
                f"{path / name} is a link. A run writes only into its own folder: remove the link."
            )


@contextlib.contextmanager
def _explained(path: Path, advice: str = "Choose another place for the run.") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"Cannot write to {path}: {reason}. {advice}") from error


# The lock


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[RunDirectory]:
    with contextlib.ExitStack() as until_the_end:
        with _explained(path):
            path.mkdir(exist_ok=True)
            _refuse_links(path)
            message = until_the_end.enter_context(locked(path / LOCK))
            messages = [*([message] if message else []), *_tidy(path)]
        yield RunDirectory(path, tuple(messages))


def _tidy(path: Path) -> list[str]:
    """Removes what killed processes were writing. Only the holder of the lock may: nobody else writes these."""
    leftovers = sorted(
        leftover
        for name in (CONFIG, METRICS, SUMMARY, "*.png")
        for leftover in path.glob(f".{name}.????????.tmp")
        if leftover.is_file()
    )
    for leftover in leftovers:
        leftover.unlink()
    return [
        f"Removed {leftover}, left by a process that was stopped while it wrote." for leftover in leftovers
    ]
