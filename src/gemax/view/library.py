"""The runs below a folder, as the page sees them. Reads only, and says in words what it cannot read."""

import itertools
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gemax.runs.locks import is_locked
from gemax.runs.run_directory import CONFIG, LOCK, METRICS, SUMMARY
from gemax.runs.snapshots.files import (
    FOLDER,
    SnapshotError,
    read_scene,
    read_snapshot,
    snapshot_path,
    snapshot_updates,
)
from gemax.view.claims import find_report, is_plot, read_report
from gemax.view.confined import Confined, RefusedError
from gemax.view.metric_lines import number, read_curves, read_last_record
from gemax.view.snapshot_json import snapshot_json
from gemax.view.warnings import warnings_of

MAX_DEPTH = 6
MAX_RUNS = 1000
MAX_CONFIG_BYTES = 4 * 2**20
SKIPPED = {"checkpoints", FOLDER, "tensorboard", "wandb"}
POINTS_OF_ALL_RUNS = 16_000
"""Points per curve, over all runs."""
MAX_POINTS, MIN_POINTS = 400, 60
"""Points per curve and run."""
AXES = ("update", "frames", "seconds")


class NotFoundError(LookupError):
    """There is no such run, snapshot or plot."""


class Fingerprint(NamedTuple):
    """Changes if the files of a run change."""

    files: tuple[tuple[int, int], ...]
    """Size and time of change of configuration, metrics and summary."""
    snapshots: int
    is_training: bool


class Library:
    """All runs below a folder. Safe to use from several threads.

    Args:
        root: A run directory, or a folder with runs.
    """

    def __init__(self, root: Path) -> None:
        self.confined = Confined(root)
        self.root = self.confined.root
        self.name = root.name or self.root.name or str(self.root)
        self._entries: dict[str, tuple[Fingerprint, dict[str, Any]]] = {}
        self._known_curves: dict[Path, tuple[tuple[Any, ...], dict[str, list[float | None]]]] = {}
        self._lock = threading.Lock()

    def fingerprints(self) -> dict[str, Fingerprint]:
        """Returns the fingerprint of every run, by its path below the root."""
        return {self._id(path): self._fingerprint(path) for path in self._find_runs()}

    def index(self) -> dict[str, Any]:
        """Returns all runs without their data."""
        fingerprints = self.fingerprints()
        entries = [self._entry(run_id, fingerprint) for run_id, fingerprint in fingerprints.items()]
        messages = []
        if len(entries) >= MAX_RUNS:
            messages.append(f"Only the first {MAX_RUNS:,} runs are shown. Choose a folder with fewer.")
        if not self.root.exists():
            messages.append("The folder has been deleted.")
        return {
            "name": self.name,
            "runs": entries,
            "has_report": find_report(self.confined) is not None,
            "messages": messages,
        }

    def curves(self, run_ids: list[str], metrics: list[str]) -> dict[str, Any]:
        """Returns the values of metrics over updates, frames and seconds, thinned to what a chart can show."""
        max_points = min(max(POINTS_OF_ALL_RUNS // max(len(run_ids), 1), MIN_POINTS), MAX_POINTS)
        names = (*AXES, *metrics)
        return {run_id: self._curves(run_id, names, max_points) for run_id in run_ids}

    def snapshot(self, run_id: str, update: int) -> dict[str, Any]:
        """Returns a snapshot of a run. `message` says what is wrong with a damaged one."""
        folder = self._snapshots(run_id)
        try:
            scene = self._scene(folder)
            return snapshot_json(scene, self._read_snapshot(folder, update))
        except (SnapshotError, RefusedError) as error:
            return {"message": str(error)}

    def film(self, run_id: str, update: int) -> bytes:
        """Returns the film of a snapshot, a PNG or WebP image."""
        try:
            arrays = self._read_snapshot(self._snapshots(run_id), update)
            return arrays["film"].tobytes()
        except (SnapshotError, RefusedError, KeyError) as error:
            raise NotFoundError(f"Update {update} has no film.") from error

    def warnings(self, run_id: str) -> list[str]:
        """Returns the warnings of a run, in words. A run that has been deleted has none."""
        try:
            path = self.path(run_id)
            return warnings_of(path, self.confined.check(path / METRICS))
        except (NotFoundError, OSError, RefusedError):
            return []

    def report(self) -> dict[str, Any] | None:
        """Returns claims and figures of `gemax reproduce`, if there are any."""
        folder = find_report(self.confined)
        return None if folder is None else read_report(self.confined, folder)

    def plot(self, name: str) -> bytes:
        """Returns a PNG file of the report."""
        folder = find_report(self.confined)
        if folder is None or not is_plot(self.confined, folder, name):
            raise NotFoundError("There is no such plot.")
        return self.confined.read_bytes(folder / name)

    def path(self, run_id: str) -> Path:
        """Returns the directory of a run.

        Raises:
            NotFoundError: There is no such run. Paths that lead out of the folder are no runs either.
        """
        for path in self._find_runs():
            if self._id(path) == run_id:
                return path
        raise NotFoundError("There is no such run. It may have been deleted.")

    def _id(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _find_runs(self) -> Iterator[Path]:
        """Yields run directories in natural order. A run of several seeds is replaced by its seeds."""
        yield from itertools.islice(self._walk(self.root, 0), MAX_RUNS)

    def _walk(self, folder: Path, depth: int) -> Iterator[Path]:
        try:
            with os.scandir(folder) as scan:
                entries = {entry.name: entry for entry in scan}
        except OSError:
            return
        is_run = CONFIG in entries or METRICS in entries
        below = []
        if depth < MAX_DEPTH:
            for name in sorted(entries, key=_natural):
                entry = entries[name]
                if name.startswith(".") or name in SKIPPED or not _is_folder(entry):
                    continue
                if is_run and not re.fullmatch(r"seed-\d+", name):
                    continue
                if entry.is_symlink() and not self.confined.contains(folder / name):
                    continue
                below.append(folder / name)
        runs_below = [run for path in below for run in self._walk(path, depth + 1)] if below else []
        if is_run and not runs_below:
            yield folder
        yield from runs_below

    def _fingerprint(self, path: Path) -> Fingerprint:
        files = []
        for name in (CONFIG, METRICS, SUMMARY):
            try:
                status = (path / name).stat()
                files.append((status.st_size, status.st_mtime_ns))
            except OSError:
                files.append((-1, -1))
        updates = snapshot_updates(path / FOLDER)
        locked = is_locked(path / LOCK) or (path.name.startswith("seed-") and is_locked(path.parent / LOCK))
        return Fingerprint(tuple(files), hash(tuple(updates)), locked)

    def _entry(self, run_id: str, fingerprint: Fingerprint) -> dict[str, Any]:
        with self._lock:
            known = self._entries.get(run_id)
        if known is not None and known[0] == fingerprint:
            return known[1]
        entry = self._describe(run_id, self.root / run_id, fingerprint)
        with self._lock:
            self._entries[run_id] = (fingerprint, entry)
        return entry

    def _describe(self, run_id: str, path: Path, fingerprint: Fingerprint) -> dict[str, Any]:
        messages: list[str] = []
        config = self._read_json(path / CONFIG, messages)
        summary = self._read_json(path / SUMMARY, messages, may_be_missing=True)
        last, scene, updates = self._last_record(path, messages), None, []
        folder = path / FOLDER
        if folder.is_dir():
            try:
                scene = self._scene(folder)
                updates = snapshot_updates(folder)
            except (SnapshotError, RefusedError) as error:
                messages.append(str(error))
        env, intrinsic, run = (_section(config, name) for name in ("env", "intrinsic", "run"))
        return {
            "id": run_id,
            "name": self.name if run_id == "." else run_id,
            "env": str(env.get("env_id", "unknown environment")),
            "method": str(intrinsic.get("method", "unknown method")),
            "seed": run.get("seed") if isinstance(run.get("seed"), int) else None,
            "updates": run.get("updates") if isinstance(run.get("updates"), int) else None,
            "status": _status(summary, last, is_training=fingerprint.is_training),
            "last": {name: number(value) for name, value in last.items()},
            "ceiling": number(summary.get("entropy_ceiling")),
            "scene": scene,
            "snapshots": updates,
            "messages": messages,
        }

    def _last_record(self, path: Path, messages: list[str]) -> dict[str, Any]:
        try:
            last = read_last_record(self.confined.check(path / METRICS))
        except FileNotFoundError:
            messages.append(f"{METRICS} is missing, so there are no curves.")
        except RefusedError as error:
            messages.append(str(error))
        except OSError as error:
            messages.append(f"{METRICS} cannot be read: {error.strerror or error}.")
        else:
            if last.has_damaged_lines:
                messages.append(
                    f"{METRICS} has damaged lines, which are left out. Resume the run to drop them."
                )
            return last.record
        return {}

    def _curves(self, run_id: str, names: tuple[str, ...], max_points: int) -> dict[str, list[float | None]]:
        try:
            path = self.confined.check(self.root / run_id / METRICS)
            if not self.confined.contains(self.root / run_id):
                raise RefusedError
            return self._curves_of(path, names, max_points)
        except (OSError, RefusedError):
            return {name: [] for name in names}

    def _curves_of(
        self, path: Path, names: tuple[str, ...], max_points: int
    ) -> dict[str, list[float | None]]:
        """Reads metrics again only if the file or the request has changed, so that many pages cost as much as one.

        Keeps the newest curves of each run only: a run that trains for hours changes its file thousands of times.
        """
        status = path.stat()
        stamp = (status.st_size, status.st_mtime_ns, names, max_points)
        with self._lock:
            known = self._known_curves.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        curves = read_curves(path, names, max_points)
        with self._lock:
            self._known_curves[path] = (stamp, curves)
            if len(self._known_curves) > MAX_RUNS:
                del self._known_curves[next(iter(self._known_curves))]
        return curves

    def _snapshots(self, run_id: str) -> Path:
        return self.path(run_id) / FOLDER

    def _scene(self, folder: Path) -> dict[str, Any]:
        self.confined.check(folder / "scene.json")
        try:
            return read_scene(folder)
        except FileNotFoundError as error:
            raise SnapshotError("The snapshots have no scene.json, so they cannot be drawn.") from error
        except OSError as error:
            raise SnapshotError(f"scene.json cannot be read: {error.strerror or error}.") from error

    def _read_snapshot(self, folder: Path, update: int) -> dict[str, Any]:
        self.confined.check(snapshot_path(folder, update))
        try:
            return read_snapshot(folder, update)
        except FileNotFoundError as error:
            raise SnapshotError(f"The snapshot of update {update:,} has been deleted.") from error
        except OSError as error:
            raise SnapshotError(
                f"The snapshot of update {update:,} cannot be read: {error.strerror or error}."
            ) from error

    def _read_json(self, path: Path, messages: list[str], *, may_be_missing: bool = False) -> dict[str, Any]:
        try:
            if self.confined.check(path).stat().st_size > MAX_CONFIG_BYTES:
                raise ValueError("it is too large")
            content = json.loads(path.read_bytes(), parse_constant=lambda _: None)
            if not isinstance(content, dict):
                raise ValueError("it holds no JSON object")
        except FileNotFoundError:
            if not may_be_missing:
                messages.append(f"{path.name} is missing, so method and environment are not known.")
        except RefusedError as error:
            messages.append(str(error))
        except OSError as error:
            messages.append(f"{path.name} cannot be read: {error.strerror or error}.")
        except json.JSONDecodeError as error:
            messages.append(
                f"{path.name} is damaged: it is not JSON from line {error.lineno}, column {error.colno} on."
            )
        except (ValueError, RecursionError) as error:
            messages.append(f"{path.name} is damaged: {error}.")
        else:
            return content
        return {}


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    section = config.get(name)
    return section if isinstance(section, dict) else {}


def _status(summary: dict[str, Any], last: dict[str, Any], *, is_training: bool) -> str:
    """Returns `training`, what the summary says, or `interrupted` if a run has ended without a summary."""
    if is_training:
        return "training"
    return str(summary.get("status") or ("interrupted" if last else "empty"))


def _is_folder(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _natural(name: str) -> list[tuple[int, int | str]]:
    """Sorts seed-2 before seed-10."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]
