"""Checkpoints: the whole state of a run, on disk so that half a state or a damaged one is never taken for it.

A checkpoint is a folder such as `update-00000123` with two files. `arrays.safetensors` holds the leaves of the state;
`manifest.json` names them and carries the sha256 of the arrays and of itself. Both are written under another name and
renamed once they are on the disk, so a folder of that name was whole when it appeared. Nothing is unpickled.
"""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from gemax.version import VERSION

FORMAT = 1
"""Counted up when older code could no longer read what newer code writes. Every format keeps the seal."""
ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"
LARGEST_MANIFEST_BYTES = 64 * 2**20
LONGEST_TABLE = 20

_LEFTOVER = re.compile(r"\.?update-\d+.*\.tmp")
_REPLACED = re.compile(r"\.(update-\d+)\.replaced")
_logger = logging.getLogger(__name__)


class CheckpointError(Exception):
    """There is no checkpoint this run can go on from. The message says why, for each that was looked at."""

    exit_code = 4


class Loaded(NamedTuple):
    """A checkpoint as it was read back."""

    update: int
    tree: Any
    """Built like `like`, bit for bit what was saved."""
    facts: dict[str, Any]
    messages: list[str]
    """What a user should know: checkpoints that were skipped, leftovers that were removed."""


class _DamagedError(Exception):
    """A checkpoint is not what was written."""


class Leaves(NamedTuple):
    """A checkpoint as it was read back, where nobody said what to expect."""

    update: int
    arrays: dict[str, np.ndarray | jax.Array]
    """By names such as `.parameters['torso']['kernel']`."""
    messages: list[str]
    """As in `Loaded`."""


class _Content(NamedTuple):
    """What the two files of a checkpoint hold, once their checksums agree."""

    leaves: dict[str, dict[str, Any]]
    arrays: dict[str, np.ndarray | jax.Array]
    facts: dict[str, Any]


def save_checkpoint(folder: Path, update: int, tree: Any, facts: dict[str, Any], keep: int = 3) -> Path:
    """Saves the state of a run as a whole or not at all, then deletes checkpoints beyond the `keep` newest.

    Args:
        folder: Where the checkpoints of this run are; one process at a time may write there.
        update: How many updates the state has seen. An earlier checkpoint of the same update is replaced.
        tree: Any pytree of JAX or NumPy arrays, random keys included.
        facts: What should be known before going on from here, such as versions and the number of threads. JSON only.
        keep: How many checkpoints to keep. The one just written is always among them.

    Raises:
        OSError: The disk is full or not writable. What was there before is untouched, so training may go on.
    """
    if update < 0 or keep < 1:
        raise ValueError(f"update must be at least 0 and keep at least 1; got {update} and {keep}.")
    leaves = _named_leaves(tree)
    arrays = _serialised(leaves)
    manifest = _sealed(
        {
            "format": FORMAT,
            "gemax": VERSION,
            "update": update,
            "arrays": {"bytes": len(arrays), "sha256": hashlib.sha256(arrays).hexdigest()},
            "leaves": {name: _description(leaf) for name, leaf in leaves.items()},
            "facts": facts,
        }
    )
    # Facts that JSON confuses, such as the keys 1 and "1", are better found now than on the way back.
    _unsealed(manifest)
    _make_folder(folder)
    for message in _tidy(folder):
        _logger.info(message)
    final = folder / _folder_name(update)
    with _temporary_folder(folder, final.name) as temporary:
        _write(temporary / ARRAYS, arrays)
        _write(temporary / MANIFEST, manifest)
        _flush_folder(temporary)
        _put_in_place(temporary, final)
    _delete_old(folder, update, keep)
    return final


def load_checkpoint(folder: Path, like: Any) -> Loaded:
    """Reads the newest checkpoint that is as it was written.

    Damaged ones are skipped for the one before, each with a message. Leaves come back as NumPy arrays where those of
    `like` are, or where JAX has no such dtype (64 bits, unless enabled); otherwise as JAX arrays on the default
    device, weakly typed where those of `like` are. What holds no array (None, empty containers) is taken from `like`.

    Args:
        folder: Where the checkpoints of a run are.
        like: A tree with the structure, shapes and dtypes to expect, as `jax.eval_shape` gives it.

    Raises:
        CheckpointError: There is none, all are damaged, or the newest good one is of another tree or a newer format.
    """
    expected = {name: _description(leaf) for name, leaf in _named_leaves(like).items()}
    path, update, (leaves, arrays, facts), messages = _newest(folder, _tidy(folder))
    _refuse_another_tree(path, leaves, expected)
    return Loaded(update, _restored(like, arrays), facts, messages)


def load_leaves(folder: Path) -> Leaves:
    """The same checkpoint of somebody else's run, of whatever kind. Nothing there is tidied up.

    Raises:
        CheckpointError: There is none, all are damaged, or the newest good one is of a newer format.
    """
    _, update, content, messages = _newest(folder, [])
    return Leaves(update, content.arrays, messages)


def _newest(folder: Path, messages: list[str]) -> tuple[Path, int, _Content, list[str]]:
    """The newest good checkpoint: where it is, its update and content; and the messages, with what was skipped."""
    skipped = []
    for update, path in sorted(_checkpoints(folder).items(), reverse=True):
        try:
            content = _read_checkpoint(path, update)
        except _DamagedError as damage:
            skipped.append(f"update {update}: {path}: {damage}")
            continue
        messages = messages + [f"Skipped a damaged checkpoint, {reason}" for reason in skipped]
        return path, update, content, messages
    if not skipped:
        raise CheckpointError(f"There is no checkpoint in {folder}.")
    raise CheckpointError("\n  ".join([f"All checkpoints in {folder} are damaged:", *skipped]))


# Trees and leaves


def _named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves in order, under names such as `.params['torso']['kernel']`."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    names = [jax.tree_util.keystr(path) or "tree" for path, _ in leaves]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"Leaves of a checkpoint need names of their own; used twice: {', '.join(twice)}.")
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct | np.ndarray | np.generic):
            raise TypeError(
                f"A checkpoint holds arrays; {name} is a {type(leaf).__name__}. Make it an array or one of the facts."
            )
    return {name: leaf for name, (_, leaf) in zip(names, leaves, strict=True)}


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _description(leaf: Any) -> dict[str, Any]:
    description = {"shape": list(leaf.shape), "dtype": leaf.dtype.name}
    if isinstance(leaf, jax.Array) and _is_key(leaf):
        description["generator"] = str(jax.random.key_impl(leaf))
    return description


def _serialised(leaves: dict[str, Any]) -> bytes:
    arrays = {
        name: np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf, order="C")
        for name, leaf in leaves.items()
    }
    try:
        return safetensors.numpy.save(arrays)
    except safetensors.SafetensorError as error:
        dtypes = ", ".join(f"{name} ({array.dtype})" for name, array in arrays.items())
        raise TypeError(f"A checkpoint cannot hold one of these: {dtypes}. {error}") from error


def _array(description: dict[str, Any], tensor: dict[str, Any]) -> np.ndarray | jax.Array:
    """A leaf from its bytes. Where they do not fit its description, this raises."""
    if "generator" in description:
        numbers = np.frombuffer(tensor["data"], np.uint32).reshape(tensor["shape"])
        array = jax.random.wrap_key_data(jnp.array(numbers), impl=description["generator"])
    else:
        array = np.frombuffer(tensor["data"], np.dtype(description["dtype"])).reshape(tensor["shape"])
    if _description(array) != description:
        raise ValueError(f"{_description(array)} was described as {description}")
    return array


def _restored(like: Any, arrays: dict[str, np.ndarray | jax.Array]) -> Any:
    leaves = [_of_the_kind(expected, arrays[name]) for name, expected in _named_leaves(like).items()]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(like), leaves)


def _of_the_kind(expected: Any, array: np.ndarray | jax.Array) -> np.ndarray | jax.Array:
    if isinstance(expected, np.ndarray | np.generic) or isinstance(array, jax.Array):
        return array
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        return array
    if not expected.weak_type:
        return jnp.array(array)
    # A weak type decides what sums with other dtypes give, so without it a resumed run could differ. It comes only
    # with Python numbers, hence from one of the same kind, overwritten.
    return jnp.full(array.shape, array.dtype.type(0).item()).at[...].set(array)


def _refuse_another_tree(path: Path, stored: dict[str, Any], expected: dict[str, Any]) -> None:
    rows = [
        (name, _in_words(stored.get(name)), _in_words(expected.get(name)))
        for name in [*expected, *(name for name in stored if name not in expected)]
    ]
    different = [row for row in rows if row[1] != row[2]]
    if not different:
        return
    shown = [("leaf", "checkpoint", "this run"), *different[:LONGEST_TABLE]]
    widths = [max(len(row[column]) for row in shown) for column in range(2)]
    lines = [f"  {name:{widths[0]}}  {there:{widths[1]}}  {here}" for name, there, here in shown]
    if len(different) > LONGEST_TABLE:
        lines.append(f"  and {len(different) - LONGEST_TABLE} more")
    raise CheckpointError("\n".join([f"{path} holds the state of another kind of run:", *lines]))


def _in_words(description: dict[str, Any] | None) -> str:
    if description is None:
        return "missing"
    return f"{description['dtype']}[{', '.join(map(str, description['shape']))}]"


# The files of one checkpoint


def _sealed(content: dict[str, Any]) -> bytes:
    """The manifest as text, with its own sha256: the arrays' sha256 does not help if a bit flips in the manifest."""
    seal = hashlib.sha256(json.dumps(content, allow_nan=False).encode()).hexdigest()
    return json.dumps({**content, "seal": seal}, indent=1, allow_nan=False).encode()


def _unsealed(text: bytes) -> dict[str, Any]:
    content = json.loads(text)
    # Written anew it must be the same to the byte, so that no flipped bit is too small to be noticed.
    if text != _sealed({name: value for name, value in content.items() if name != "seal"}):
        raise ValueError("its sha256 differs")
    return content


def _read_checkpoint(path: Path, update: int) -> _Content:
    """All of a checkpoint. Nothing is believed before its checksum agrees."""
    manifest = _read_manifest(path)
    try:
        _refuse_newer_format(path, manifest)
        if manifest["update"] != update:
            raise _DamagedError(f"{MANIFEST} is of update {manifest['update']}")
        content = _read(path / ARRAYS, manifest["arrays"]["bytes"])
        if len(content) < manifest["arrays"]["bytes"]:
            raise _DamagedError(f"{ARRAYS} is cut: {len(content)} of {manifest['arrays']['bytes']} bytes")
        if hashlib.sha256(content).hexdigest() != manifest["arrays"]["sha256"]:
            raise _DamagedError(f"{ARRAYS} is not as it was written (sha256 differs)")
        tensors = dict(safetensors.deserialize(content))
        arrays = {name: _array(leaf, tensors[name]) for name, leaf in manifest["leaves"].items()}
        return _Content(manifest["leaves"], arrays, manifest["facts"])
    except (KeyError, TypeError, ValueError, AttributeError, safetensors.SafetensorError) as error:
        # Sealed by somebody, but not by `save_checkpoint`.
        raise _DamagedError(f"{MANIFEST} and {ARRAYS} do not fit together ({error!r})") from error


def _read_manifest(path: Path) -> dict[str, Any]:
    content = _read(path / MANIFEST, LARGEST_MANIFEST_BYTES)
    try:
        return _unsealed(content)
    except (ValueError, AttributeError, RecursionError) as error:
        raise _DamagedError(f"{MANIFEST} is not as it was written ({error})") from error


def _refuse_newer_format(path: Path, manifest: dict[str, Any]) -> None:
    if manifest["format"] > FORMAT:
        raise CheckpointError(
            f"{path} was written by version {manifest['gemax']} (checkpoint format {manifest['format']}), "
            f"this is {VERSION} (format {FORMAT}). Update gemax to go on from there."
        )


def _read(path: Path, largest: int) -> bytes:
    """The content of a regular file: a link may point anywhere, and a pipe would wait forever."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise _DamagedError(f"{path.name} is not a regular file")
        if status.st_size > largest:
            raise _DamagedError(f"{path.name} has {status.st_size} bytes, {largest} at most were expected")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise _DamagedError(f"{path.name} is missing") from error
    except OSError as error:
        raise _DamagedError(f"{path.name} cannot be read ({error.strerror})") from error


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


# The folder of all checkpoints


def _folder_name(update: int) -> str:
    return f"update-{update:08d}"


def _is_checkpoint(path: Path) -> bool:
    """Whether something of ours is there, in whatever state. Links are not ours: they may lead out of the run."""
    if path.is_symlink():
        return False
    return (path / ARRAYS).exists() or (path / MANIFEST).exists()


def _checkpoints(folder: Path) -> dict[int, Path]:
    found = {}
    for path in folder.glob("update-*"):
        number = path.name.removeprefix("update-")
        update = int(number) if number.isascii() and number.isdecimal() and len(number) < 20 else -1
        if path.name == _folder_name(update) and _is_checkpoint(path):
            found[update] = path
        else:
            _logger.debug("Ignored %s: it holds no checkpoint.", path)
    return found


def _put_in_place(temporary: Path, final: Path) -> None:
    """Gives a complete checkpoint its name. One that has the name already can be brought back until then."""
    aside = final.with_name(f".{final.name}.replaced")
    if not _is_checkpoint(final):
        os.rename(temporary, final)
        _flush_folder(final.parent)
        return
    with _held(final):
        os.rename(final, aside)
        try:
            os.rename(temporary, final)
        except OSError:
            os.rename(aside, final)
            raise
        _flush_folder(final.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _delete_old(folder: Path, update: int, keep: int) -> None:
    # A run that fell back finds later, damaged updates here. They must not take the places of good ones.
    so_far = sorted(number for number in _checkpoints(folder) if number <= update)
    for number in so_far[:-keep]:
        # First the name, so that half a deletion is a leftover and not a damaged checkpoint.
        doomed = folder / f".{_folder_name(number)}.{secrets.token_hex(4)}.tmp"
        os.rename(folder / _folder_name(number), doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _tidy(folder: Path) -> list[str]:
    """Clears up after killed processes, and tells what it did. What a living one is writing stays."""
    messages = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not (_REPLACED.fullmatch(path.name) or _LEFTOVER.fullmatch(path.name)) or _is_held(path):
            continue
        try:
            messages.append(_clear_up(path))
        except OSError as error:
            messages.append(f"Could not clear up {path}, left by a stopped process: {error.strerror}.")
    return messages


def _clear_up(path: Path) -> str:
    replaced = _REPLACED.fullmatch(path.name)
    if replaced and not (original := path.with_name(replaced[1])).exists():
        os.rename(path, original)
        return f"Brought back {original}: a process was stopped while it replaced it."
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    return f"Removed {path}, left by a process that was stopped while it saved."


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        _flush_folder(folder.parent)


@contextlib.contextmanager
def _temporary_folder(folder: Path, name: str) -> Iterator[Path]:
    """A folder to fill and then rename. It goes if it was not renamed."""
    temporary = folder / f".{name}.{secrets.token_hex(4)}.tmp"
    temporary.mkdir()
    try:
        with _held(temporary):
            yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keeps others from tidying a folder away. The lock ends with the process, however that ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems have no locks. Reading a run there while it saves can cost it that one save.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _flush_folder(folder: Path) -> None:
    """Puts names on the disk: a file that was flushed is still lost if its folder was not."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
