"""The run directory: `config.json`, `metrics.jsonl`, `summary.json` and `checkpoints/` of one run.

One process at a time may write to it, protected by a lock file. A run writes nowhere else.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemax.errors import CheckpointError
from gemax.runs.files import (
    encode_json,
    explain_write_errors,
    remove_temporary_files,
    write_bytes,
    write_json,
)
from gemax.runs.locks import locked
from gemax.runs.paths import check_names, check_no_links
from gemax.runs.trust import is_signed, sign
from gemax.settings import did_you_mean

CONFIG = "config.json"
METRICS = "metrics.jsonl"
SUMMARY = "summary.json"
CHECKPOINTS = "checkpoints"
LOCK = "run.lock"
SIGNATURE = "signature"
"""Field of `config.json`, beside the sections of the configuration."""
SINKS = ("tensorboard", "wandb", "snapshots")
"""Folders that sinks and snapshots write to."""


class RunLostError(CheckpointError):
    """The directory of a run was deleted or renamed while the run was training."""


@dataclass(frozen=True)
class RunDirectory:
    """The files of one run. Construct it from a path to read; use `create_run` or `resume_run` to write."""

    path: Path
    messages: tuple[str, ...] = ()
    """Messages for the user from opening the directory, for example about a stale lock."""
    identity: tuple[int, int] | None = None
    """Device and inode of the directory when it was opened to write."""

    @property
    def checkpoints(self) -> Path:
        """Folder for `save_checkpoint` and `load_checkpoint`."""
        return self.path / CHECKPOINTS

    @property
    def metrics(self) -> Path:
        """File for `append_metrics`, `rewind_metrics` and `read_metrics`."""
        return self.path / METRICS

    @property
    def has_summary(self) -> bool:
        """Whether the run has ended, or was stopped, and has its summary."""
        return (self.path / SUMMARY).is_file()

    def read_config(self) -> dict[str, Any]:
        """Returns the content of `config.json`, without its signature.

        Raises:
            ValueError: There is no run, or the file is damaged.
        """
        check_run(self.path)
        config = _read_json(self.path / CONFIG)
        config.pop(SIGNATURE, None)
        return config

    @property
    def is_own(self) -> bool:
        """Whether the user wrote `config.json` with gemax on this machine, and it was not edited since."""
        config = _read_json(self.path / CONFIG)
        return is_signed(config, config.pop(SIGNATURE, None))

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Writes and signs `config.json`, unless it has this content already."""
        path, text = self.path / CONFIG, _encode_config(config)
        if not path.is_file() or path.read_bytes() != text:
            write_bytes(path, text)

    def read_summary(self) -> dict[str, Any]:
        """Returns the content of `summary.json`."""
        return _read_json(self.path / SUMMARY)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Writes `summary.json`."""
        write_json(self.path / SUMMARY, summary)


@contextlib.contextmanager
def create_run(path: Path, config: Mapping[str, Any]) -> Iterator[RunDirectory]:
    """Creates the directory of a new run, locked for this process until the block ends.

    Args:
        path: The run directory. Its parent must exist.
        config: The complete configuration of the run.

    Raises:
        ValueError: The path is invalid or already holds a run, or the configuration cannot be written as JSON.
        OSError: The directory is not writable.
    """
    check_names(path)
    _encode_config(config)  # raises before anything is created
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is not a folder. Create it first, or choose another directory.")
    with _open_locked(path) as run:
        check_no_run(path)
        with explain_write_errors(path):
            run.metrics.touch()
            # Written last: a directory with a configuration can be resumed.
            run.write_config(config)
        yield run


@contextlib.contextmanager
def resume_run(path: Path) -> Iterator[RunDirectory]:
    """Opens the directory of an existing run, locked for this process until the block ends.

    Raises:
        ValueError: There is no run, or another process is writing to it.
        OSError: The directory is not writable.
    """
    check_names(path)
    check_run(path)
    with _open_locked(path) as run:
        yield run


def open_nested_run(run: RunDirectory, name: str, config: Mapping[str, Any]) -> RunDirectory:
    """Opens or creates a run directory inside another one. The lock of the outer run protects both.

    Raises:
        ValueError: The directory, or a file of the run in it, is a link.
        OSError: The directory is not writable.
    """
    path = run.path / name
    check_no_links([path])
    with explain_write_errors(path):
        _make_folder(path)
        nested = RunDirectory(path, tuple(_remove_leftovers(path)))
        nested.metrics.touch()
        nested.write_config(config)
    return nested


def check_in_place(run: RunDirectory) -> None:
    """Raises RunLostError if the directory was deleted or renamed since it was opened to write."""
    if run.identity is not None and _identity(run.path) != run.identity:
        raise RunLostError(f"{run.path} was deleted or renamed while the run was training.")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def check_run(path: Path) -> None:
    """Raises ValueError if there is no run at the path. The message names runs that may be meant."""
    if (path / CONFIG).is_file():
        return
    if path.is_dir():
        inside = sorted(config.parent.name for config in path.glob(f"*/{CONFIG}"))
        hint = f" Choose one of the runs in it: {', '.join(inside)}." if inside else ""
        raise ValueError(f"{path} holds no run: {CONFIG} is missing.{hint}")
    siblings = [config.parent.name for config in path.parent.glob(f"*/{CONFIG}")]
    raise ValueError(f"there is no run at {path}.{did_you_mean(path.name, siblings)}")


def check_no_run(path: Path) -> None:
    """Raises ValueError if the path holds files that a new run would overwrite."""
    metrics, checkpoints = path / METRICS, path / CHECKPOINTS
    if (
        (path / CONFIG).exists()
        or (path / SUMMARY).exists()
        or (metrics.exists() and metrics.stat().st_size > 0)
        or (checkpoints.is_dir() and any(checkpoints.iterdir()))
    ):
        raise ValueError(f"{path} already holds a run. Resume it, or choose another directory.")


@contextlib.contextmanager
def _open_locked(path: Path) -> Iterator[RunDirectory]:
    with contextlib.ExitStack() as stack:
        with explain_write_errors(path):
            _make_folder(path)
            message = stack.enter_context(locked(path / LOCK))
            messages = [*([message] if message else []), *_remove_leftovers(path)]
        yield RunDirectory(path, tuple(messages), _identity(path))


def _make_folder(path: Path) -> None:
    path.mkdir(exist_ok=True)
    check_no_links(path / name for name in (CONFIG, METRICS, SUMMARY, CHECKPOINTS, LOCK, *SINKS))


def _remove_leftovers(path: Path) -> list[str]:
    return remove_temporary_files(path, (CONFIG, METRICS, SUMMARY, "*.png"))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it does not hold a JSON object.")
    return content


def _encode_config(config: Mapping[str, Any]) -> bytes:
    try:
        return encode_json({**config, SIGNATURE: sign(config)})
    except (TypeError, ValueError) as error:
        raise ValueError(f"The configuration cannot be written as JSON: {error}.") from error
