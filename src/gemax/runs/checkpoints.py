"""The checkpoint folder of a run, in which a crash never leaves an incomplete checkpoint.

Each checkpoint is a folder such as `update-00000123` with the files of `checkpoint_format`. It is written under a
temporary name, flushed to the disk and then renamed, so that every folder with such a name is complete. The newest
checkpoints are kept, and beside them the folder `best`, which is written in the same way.
"""

import contextlib
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from gemax.errors import CheckpointError
from gemax.runs.checkpoint_format import (
    ARRAYS,
    MANIFEST,
    DamagedCheckpointError,
    StoredCheckpoint,
    encode_checkpoint,
    read_checkpoint,
    restore_tree,
)
from gemax.runs.files import sync_folder, write_and_sync
from gemax.runs.locks import is_locked, locked_folder

_COMPLETE = re.compile(r"update-([0-9]{8}|[1-9][0-9]{8,18})")
_TEMPORARY = re.compile(r"\.?(update-\d+|best).*\.tmp")
_REPLACED = re.compile(r"\.(update-\d+|best)\.replaced")
_logger = logging.getLogger(__name__)

BEST = "best"
"""Folder of the best checkpoint."""
RETRY_SECONDS = 0.1
"""A best checkpoint that cannot be read is read again after this time: a running process may be replacing it."""

Checkpoint: TypeAlias = Literal["newest", "best"] | int
"""A checkpoint of a run: the newest good one, the best one, or that of an update."""


class NoBestError(CheckpointError):
    """There is no best checkpoint."""


class LoadedCheckpoint(NamedTuple):
    """A checkpoint read from disk."""

    update: int
    tree: Any
    """Equal to the saved tree, bit for bit."""
    metadata: dict[str, Any]
    messages: list[str]
    """Messages for the user about skipped checkpoints and removed leftovers."""
    path: Path
    """The folder that was read."""


def save_checkpoint(folder: Path, update: int, tree: Any, metadata: dict[str, Any], keep: int = 3) -> Path:
    """Saves a state completely or not at all, then deletes all but the `keep` newest checkpoints.

    Args:
        folder: The checkpoint folder of the run. Only one process at a time may write to it.
        update: The number of updates of the state. A checkpoint of the same update is replaced.
        tree: A pytree of JAX or NumPy arrays; may contain PRNG keys.
        metadata: JSON values to store with the state, such as versions and the number of cores.
        keep: The number of checkpoints to keep, including this one.

    Returns:
        The folder of the new checkpoint.

    Raises:
        OSError: The disk is full or not writable. Earlier checkpoints are unchanged, so training can continue.
    """
    if update < 0 or keep < 1:
        raise ValueError(f"update must be at least 0 and keep at least 1; got {update} and {keep}.")
    final = folder / _folder_name(update)
    _write_checkpoint(final, encode_checkpoint(update, tree, metadata))
    _delete_old(folder, update, keep)
    return final


def save_best(folder: Path, update: int, tree: Any, metadata: dict[str, Any]) -> Path:
    """Saves a state as the best one, completely or not at all. It replaces the one before.

    `save_checkpoint` describes the arguments, the result and the errors.
    """
    final = folder / BEST
    _write_checkpoint(final, encode_checkpoint(update, tree, metadata))
    return final


def _write_checkpoint(final: Path, files: dict[str, bytes]) -> None:
    folder = final.parent
    if not folder.is_dir():
        # Not its parents: a run directory that was deleted is not made again.
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)
    for message in _clean_up(folder):
        _logger.info(message)
    with _temporary_folder(final) as temporary:
        for name, content in files.items():
            with (temporary / name).open("xb") as file:
                write_and_sync(file, content)
        sync_folder(temporary)
        _rename_to_final(temporary, final)


def delete_later(folder: Path, update: int) -> list[str]:
    """Deletes the checkpoints after an update, except the best one, so that a run can continue from there.

    Returns a message for each.
    """
    later = sorted(number for number in _find_checkpoints(folder) if number > update)
    for number in later:
        _delete(folder, number)
    return [
        f"Deleted the checkpoint of update {number}: the run continues from update {update}."
        for number in later
    ]


def load_checkpoint(folder: Path, like: Any, checkpoint: Checkpoint = "newest") -> LoadedCheckpoint:
    """Loads an undamaged checkpoint: the newest one, the best one, or that of an update.

    If the newest or the best one is damaged, the newest undamaged one is loaded, with a message.

    A leaf is returned as a NumPy array if that of `like` is one, or if JAX does not support its dtype (64 bits, unless
    enabled). Other leaves are JAX arrays on the default device, weakly typed if those of `like` are. Nodes without
    arrays (None, empty containers) are copied from `like`.

    Args:
        folder: The checkpoint folder of the run.
        like: A tree with the expected structure, shapes and dtypes, for example from `jax.eval_shape`.
        checkpoint: `newest`, `best` or the number of an update.

    Raises:
        CheckpointError: There is no such checkpoint, it is damaged, or it has another structure or a newer format.
    """
    loaded = _load(folder, checkpoint, _clean_up(folder))
    return loaded._replace(tree=restore_tree(loaded.path, loaded.tree, like))


def load_arrays(folder: Path, checkpoint: Checkpoint = "newest") -> LoadedCheckpoint:
    """Loads an undamaged checkpoint as a dictionary of arrays, without changing the folder.

    The keys of `tree` are names such as `.parameters['torso']['kernel']`.

    Raises:
        CheckpointError: There is no such checkpoint, it is damaged, or it has a newer format.
    """
    return _load(folder, checkpoint, [])


def read_best(folder: Path) -> StoredCheckpoint:
    """Reads the best checkpoint, without changing the folder.

    Raises:
        NoBestError: There is none.
        DamagedCheckpointError: It is damaged.
        CheckpointError: It has a newer format.
    """
    path = folder / BEST
    if not _is_checkpoint(path):
        raise NoBestError(f"There is no best checkpoint in {folder}.")
    return read_checkpoint(path, None)


def _read_best_patiently(folder: Path) -> StoredCheckpoint:
    with contextlib.suppress(NoBestError, DamagedCheckpointError):
        return read_best(folder)
    time.sleep(RETRY_SECONDS)
    return read_best(folder)


def _load(folder: Path, checkpoint: Checkpoint, messages: list[str]) -> LoadedCheckpoint:
    if checkpoint == "newest":
        return _load_newest(folder, messages)
    if checkpoint == "best":
        return _load_best(folder, messages)
    if isinstance(checkpoint, int):
        return _load_update(folder, checkpoint, messages)
    raise ValueError(f"checkpoint must be newest, best or the number of an update; got {checkpoint!r}.")


def _load_best(folder: Path, messages: list[str]) -> LoadedCheckpoint:
    try:
        return LoadedCheckpoint(*_read_best_patiently(folder), messages, folder / BEST)
    except DamagedCheckpointError as damage:
        reason = f"The best checkpoint is damaged, {folder / BEST}: {damage}."
    try:
        newest = _load_newest(folder, messages)
    except CheckpointError as error:
        raise CheckpointError(f"{reason} {error}") from error
    used = f"The newest good one, of update {newest.update}, is used instead."
    return newest._replace(messages=[*newest.messages, f"{reason} {used}"])


def _load_update(folder: Path, update: int, messages: list[str]) -> LoadedCheckpoint:
    """Loads the checkpoint of an update, which may be the best one."""
    found = _find_checkpoints(folder)
    try:
        if update in found:
            return LoadedCheckpoint(*read_checkpoint(found[update], update), messages, found[update])
    except DamagedCheckpointError as damage:
        raise CheckpointError(
            f"The checkpoint of update {update} is damaged, {found[update]}: {damage}"
        ) from damage
    kept = [str(number) for number in sorted(found)]
    with contextlib.suppress(NoBestError, DamagedCheckpointError):
        best = _read_best_patiently(folder)
        if best.update == update:
            return LoadedCheckpoint(*best, messages, folder / BEST)
        kept.append(f"{best.update} (the best)")
    raise CheckpointError(
        f"There is no checkpoint of update {update} in {folder}. Choose one that is kept: {', '.join(kept) or 'none'}."
    )


def _load_newest(folder: Path, messages: list[str]) -> LoadedCheckpoint:
    skipped = []
    for update, path in sorted(_find_checkpoints(folder).items(), reverse=True):
        try:
            stored = read_checkpoint(path, update)
        except DamagedCheckpointError as damage:
            skipped.append(f"update {update}: {path}: {damage}")
            continue
        messages = messages + [f"Skipped a damaged checkpoint, {reason}" for reason in skipped]
        return LoadedCheckpoint(*stored, messages, path)
    if not skipped:
        raise CheckpointError(f"There is no checkpoint in {folder}.")
    raise CheckpointError("\n  ".join([f"All checkpoints in {folder} are damaged:", *skipped]))


def _folder_name(update: int) -> str:
    return f"update-{update:08d}"


def _temporary_path(final: Path) -> Path:
    return final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")


def _is_checkpoint(path: Path) -> bool:
    """Returns whether a folder holds a checkpoint, complete or damaged. Ignores links, which may leave the run."""
    return not path.is_symlink() and ((path / ARRAYS).exists() or (path / MANIFEST).exists())


def _find_checkpoints(folder: Path) -> dict[int, Path]:
    found = {}
    for path in folder.glob("update-*"):
        if (name := _COMPLETE.fullmatch(path.name)) and _is_checkpoint(path):
            found[int(name[1])] = path
        else:
            _logger.debug("Ignored %s: it is not a checkpoint.", path)
    return found


@contextlib.contextmanager
def _temporary_folder(final: Path) -> Iterator[Path]:
    """Creates a folder to fill and rename. Deletes it if it was not renamed."""
    temporary = _temporary_path(final)
    temporary.mkdir()
    try:
        # The lock keeps `_clean_up` in other processes from deleting the folder.
        with locked_folder(temporary):
            yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _rename_to_final(temporary: Path, final: Path) -> None:
    """Gives a complete checkpoint its final name. Keeps an existing checkpoint of that name until then."""
    if not _is_checkpoint(final):
        os.rename(temporary, final)
        sync_folder(final.parent)
        return
    replaced = final.with_name(f".{final.name}.replaced")
    with locked_folder(final):
        os.rename(final, replaced)
        try:
            os.rename(temporary, final)
        except OSError:
            os.rename(replaced, final)
            raise
        sync_folder(final.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _delete_old(folder: Path, update: int, keep: int) -> None:
    # A resumed run may find damaged checkpoints of later updates. They do not count among the newest.
    candidates = sorted(number for number in _find_checkpoints(folder) if number <= update)
    for number in candidates[:-keep]:
        _delete(folder, number)


def _delete(folder: Path, update: int) -> None:
    # Renamed first, so that an interrupted deletion leaves a temporary folder, not a damaged checkpoint.
    path = folder / _folder_name(update)
    temporary = _temporary_path(path)
    os.rename(path, temporary)
    shutil.rmtree(temporary, ignore_errors=True)


def _clean_up(folder: Path) -> list[str]:
    """Removes or restores what killed processes left, except folders locked by a running process. Returns messages."""
    messages = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not (_REPLACED.fullmatch(path.name) or _TEMPORARY.fullmatch(path.name)) or is_locked(path):
            continue
        try:
            messages.append(_restore_or_remove(path))
        except OSError as error:
            messages.append(f"Could not remove {path}, left by a killed process: {error.strerror}.")
    return messages


def _restore_or_remove(path: Path) -> str:
    replaced = _REPLACED.fullmatch(path.name)
    if replaced and not (original := path.with_name(replaced[1])).exists():
        os.rename(path, original)
        return f"Restored {original}: a process was killed while replacing it."
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    return f"Removed {path}, left by a process that was killed while saving."
