"""The format of one checkpoint: a pytree of arrays in two files, with checksums.

`arrays.safetensors` holds the leaves of the tree. `manifest.json` holds their names, shapes and dtypes, metadata, the
sha256 of the arrays, and the sha256 of the manifest itself (the seal). Nothing is unpickled.
"""

import hashlib
import json
import stat
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from gemax.errors import CheckpointError
from gemax.version import VERSION

FORMAT = 2
"""Increased when older code can no longer read new checkpoints.

Every format has the seal, so older code can tell a newer checkpoint from a damaged one.
"""
ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 64 * 2**20
MAX_LISTED_LEAVES = 20

AnyArray: TypeAlias = np.ndarray | jax.Array

_READ_ERRORS = (
    OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, safetensors.SafetensorError,
)  # fmt: skip
"""Raised while reading files that `encode_checkpoint` did not write, or that have changed since."""


class DamagedCheckpointError(Exception):
    """A checkpoint is incomplete or differs from what was written. The message gives the reason."""


def encode_checkpoint(update: int, tree: Any, metadata: dict[str, Any]) -> dict[str, bytes]:
    """Returns the content of both files, by file name.

    Raises:
        TypeError: A leaf or the metadata has a type that the files cannot hold.
        ValueError: Two leaves have the same name, or JSON would change the metadata (for example the keys 1 and "1").
    """
    leaves = _named_leaves(tree)
    arrays = _encode_arrays(leaves)
    manifest = _seal(
        {
            "format": FORMAT,
            "gemax": VERSION,
            "update": update,
            "arrays": {"bytes": len(arrays), "sha256": hashlib.sha256(arrays).hexdigest()},
            "leaves": {name: _describe(leaf) for name, leaf in leaves.items()},
            "metadata": metadata,
        }
    )
    # Raises now, not when loading, if JSON changes the metadata.
    _unseal(manifest)
    return {ARRAYS: arrays, MANIFEST: manifest}


class StoredCheckpoint(NamedTuple):
    """The content of a checkpoint."""

    update: int
    arrays: dict[str, AnyArray]
    """By names such as `.parameters['torso']['kernel']`."""
    metadata: dict[str, Any]


def read_checkpoint(path: Path, update: int | None) -> StoredCheckpoint:
    """Reads a checkpoint, of any update if that is None. Uses nothing before its checksum is verified.

    Raises:
        DamagedCheckpointError: A file is missing or damaged, or the manifest gives another update than `update`.
        CheckpointError: The checkpoint has a newer format.
    """
    try:
        manifest = _unseal(_read_file(path / MANIFEST, MAX_MANIFEST_BYTES))
        if manifest["format"] > FORMAT:
            raise CheckpointError(
                f"{path} was written by version {manifest['gemax']} (checkpoint format {manifest['format']}), "
                f"this is {VERSION} (format {FORMAT}). Update gemax to load it."
            )
        if update is not None and manifest["update"] != update:
            raise ValueError(f"{MANIFEST} gives update {manifest['update']}; expected {update}")
        content = _read_file(path / ARRAYS, manifest["arrays"]["bytes"])
        if hashlib.sha256(content).hexdigest() != manifest["arrays"]["sha256"]:
            raise ValueError(f"the sha256 of {ARRAYS} differs: it is truncated or corrupted")
        tensors = dict(safetensors.deserialize(content))
        arrays = {name: _decode(leaf, tensors[name]) for name, leaf in manifest["leaves"].items()}
        return StoredCheckpoint(int(manifest["update"]), arrays, dict(manifest["metadata"]))
    except _READ_ERRORS as error:
        raise DamagedCheckpointError(f"{type(error).__name__}: {error}") from error


def restore_tree(path: Path, arrays: dict[str, AnyArray], like: Any) -> Any:
    """Returns the arrays of the checkpoint at `path` as a tree with the structure of `like`.

    Raises:
        CheckpointError: Names, shapes or dtypes differ from those of `like`.
    """
    leaves = _named_leaves(like)
    _check_leaves(path, arrays, leaves)
    restored = [_convert(arrays[name], leaf) for name, leaf in leaves.items()]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(like), restored)


def _named_leaves(tree: Any) -> dict[str, Any]:
    """Returns the leaves in order, by names such as `.params['torso']['kernel']`."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    names = [jax.tree_util.keystr(path) or "tree" for path, _ in leaves]
    named = {name: leaf for name, (_, leaf) in zip(names, leaves, strict=True)}
    if len(named) < len(names):
        duplicates = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"The leaves of a tree must have unique names; duplicates: {', '.join(duplicates)}.")
    for name, leaf in named.items():
        if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct | np.ndarray | np.generic):
            raise TypeError(
                f"A checkpoint holds arrays, but {name} is a {type(leaf).__name__}. "
                "Convert it to an array or pass it as metadata."
            )
    return named


def _is_prng_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _describe(leaf: Any) -> dict[str, Any]:
    description = {"shape": list(leaf.shape), "dtype": leaf.dtype.name}
    if _is_prng_key(leaf):
        description["prng_impl"] = str(jax.random.key_impl(leaf))
    return description


def _encode_arrays(leaves: dict[str, Any]) -> bytes:
    arrays = {
        name: np.asarray(jax.random.key_data(leaf) if _is_prng_key(leaf) else leaf, order="C")
        for name, leaf in leaves.items()
    }
    try:
        return safetensors.numpy.save(arrays)
    except safetensors.SafetensorError as error:
        dtypes = ", ".join(f"{name} ({array.dtype})" for name, array in arrays.items())
        raise TypeError(f"A checkpoint cannot hold one of these dtypes: {dtypes}. {error}") from error


def _decode(description: dict[str, Any], tensor: dict[str, Any]) -> AnyArray:
    """Returns a leaf from its bytes. Raises ValueError if they do not match the description."""
    if "prng_impl" in description:
        key_data = np.frombuffer(tensor["data"], np.uint32).reshape(tensor["shape"])
        array = jax.random.wrap_key_data(jnp.array(key_data), impl=description["prng_impl"])
    else:
        array = np.frombuffer(tensor["data"], np.dtype(description["dtype"])).reshape(tensor["shape"])
    if _describe(array) != description:
        raise ValueError(f"{_describe(array)} was described as {description}")
    return array


def _convert(array: AnyArray, like: Any) -> AnyArray:
    """Converts a loaded array to a JAX array if `like` is one and JAX has the dtype."""
    if isinstance(like, np.ndarray | np.generic) or isinstance(array, jax.Array):
        return array
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        return array
    if not like.weak_type:
        return jnp.array(array)
    # Weak types decide the dtype of sums, so a resumed run needs them. JAX creates weak types only from Python scalars:
    # fill an array with a Python zero, then overwrite its values.
    return jnp.full(array.shape, array.dtype.type(0).item()).at[...].set(array)


def _check_leaves(path: Path, stored: dict[str, Any], expected: dict[str, Any]) -> None:
    leaves = {name: (_format(stored.get(name)), _format(expected.get(name))) for name in expected | stored}
    lines = [
        f"  {name}: {saved} in the checkpoint, {needed} in this run"
        for name, (saved, needed) in leaves.items()
        if saved != needed
    ]
    if len(lines) > MAX_LISTED_LEAVES:
        lines[MAX_LISTED_LEAVES:] = [f"  and {len(lines) - MAX_LISTED_LEAVES} more"]
    if lines:
        problem = f"{path} does not fit this run. Load it with the configuration it was saved with:"
        raise CheckpointError("\n".join([problem, *lines]))


def _format(leaf: Any) -> str:
    return "missing" if leaf is None else f"{leaf.dtype.name}[{', '.join(map(str, leaf.shape))}]"


def _seal(content: dict[str, Any]) -> bytes:
    """Returns the manifest as JSON with its own sha256, which detects damage to the manifest itself."""
    seal = hashlib.sha256(json.dumps(content, allow_nan=False).encode()).hexdigest()
    return json.dumps({**content, "seal": seal}, indent=1, allow_nan=False).encode()


def _unseal(text: bytes) -> dict[str, Any]:
    content = json.loads(text)
    # Compares the whole text, because a flipped bit in whitespace does not change the parsed content.
    if text != _seal({name: value for name, value in content.items() if name != "seal"}):
        raise ValueError(f"the sha256 of {MANIFEST} differs")
    return content


def _read_file(path: Path, max_bytes: int) -> bytes:
    """Reads a regular file. Refuses links, which may point anywhere, and pipes, which would block."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path.name} is not a regular file")
    if status.st_size > max_bytes:
        raise ValueError(f"{path.name} has {status.st_size} bytes; expected at most {max_bytes}")
    return path.read_bytes()
