"""Stores compiled programs in a folder, so that the next process need not trace them.

JAX has a cache of compiled programs too, but it has to trace and lower a program before it finds it there, which takes
several times as long as reading it. A file here is found by what the program is made from: the source of gemax, the
versions of the libraries, the configuration and the settings of JAX. It therefore must not be used for programs that
contain a user's own code.

A file is a checksum, a description of arguments and results in JSON, and the executable as XLA serialises it. Reading
it runs no Python code of the file, but the executable is machine code: the folder must be the user's own.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import monitoring
from jaxlib import lapack, xla_client

from gemax.settings import PROGRAM_FOLDER
from gemax.types import Tree

LIBRARIES = ("jax", "jaxlib", "flax", "optax", "numpy")
THREAD_VARIABLES = ("XLA_FLAGS", "NPROC", "PJRT_NPROC", "OMP_NUM_THREADS")
"""Environment variables that compiled programs can depend on, beside those that JAX has as settings."""
_UNSUPPORTED_SETTINGS = ("jax_debug_nans", "jax_debug_infs", "jax_disable_jit", "jax_default_device")
"""JAX checks for NaN only after calls of functions that it has traced. Stored programs run on the first device."""
_IMPORTED_AT = time.time()
"""Source that is newer than this may differ from what this process has imported."""
_LAPACK = re.compile(r"lapack_\w+")


def load_or_compile(
    folder: Path | None, name: str, made_from: Any, function: Any, *arguments: Tree
) -> Callable[..., Any]:
    """Returns a jitted function for these arguments, read from the folder if possible. Otherwise stores it there.

    Args:
        folder: Folder of the programs. None returns the function unchanged.
        name: Start of the file name.
        made_from: Everything that the function depends on beside the source of gemax and its arguments, as JSON.
        function: The result of `jax.jit` with `keep_unused`.
        arguments: Arguments of the function. Only their shapes and dtypes matter.
    """
    if folder is None or not _is_supported() or (source := source_digest()) is None:
        return function
    file = folder / f"{name}-{_digest(source, made_from)}"
    # Files may be damaged, and the interface of executables may change with jaxlib: tracing always works.
    with contextlib.suppress(Exception):
        return _load(file.read_bytes(), arguments)
    lowered = function.lower(*arguments)
    # Most changes of the source do not change the program.
    result_tree = repr(jax.tree.structure(lowered.out_info))
    same_program = folder / f"{name}-{_digest(lowered.as_text(), result_tree)}"
    with contextlib.suppress(Exception):
        stored = same_program.read_bytes()
        program = _load(stored, arguments)
        _write(file, stored)
        return program
    with _cache_hits() as hits:
        compiled = lowered.compile()
    # XLA does not serialise what it has read from JAX's cache: the machine code is missing, and calls fail.
    if not hits:
        with contextlib.suppress(Exception):
            stored = _serialise(compiled, lowered.out_info, arguments)
            _write(file, stored)
            _write(same_program, stored)
    return compiled


def _is_supported() -> bool:
    """Returns whether stored programs can replace traced ones in this process."""
    if jax.default_backend() != "cpu" or jax.process_count() > 1:
        return False
    return not any(getattr(jax.config, name) for name in _UNSUPPORTED_SETTINGS)


@contextlib.contextmanager
def _cache_hits() -> Iterator[list[str]]:
    """Yields a list that is not empty once JAX has read a program from its own cache."""
    hits: list[str] = []

    def listen(event: str, **_: Any) -> None:
        if event.endswith("cache_hits"):
            hits.append(event)

    monitoring.register_event_listener(listen)
    try:
        yield hits
    finally:
        monitoring.unregister_event_listener(listen)


def folder_of_programs() -> Path | None:
    """Returns the folder that the command line has chosen, if any."""
    folder = os.environ.get(PROGRAM_FOLDER)
    return Path(folder) if folder else None


def _digest(*made_from: Any) -> str:
    """Returns a digest of what a program is made from, and of everything else that it depends on."""
    devices = [(device.platform, device.device_kind) for device in jax.devices()]
    variables = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    parts = (
        made_from,
        platform.python_version(),
        {name: importlib.metadata.version(name) for name in LIBRARIES},
        # The attribute, where there is one: context managers change it, and not the values.
        {name: str(getattr(jax.config, name, value)) for name, value in jax.config.values.items()},
        variables,
        devices,
        # XLA divides loops between the cores. Workers have fewer of them than the command that chose the folder.
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    )
    # NumPy's numbers are allowed in settings.
    text = json.dumps(parts, sort_keys=True, default=lambda number: number.item())
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def source_digest() -> str | None:
    """Returns a digest of the source of gemax and of its maps. None if a file changed after it was imported."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*")):
        if file.suffix in (".py", ".txt"):
            if file.stat().st_ctime > _IMPORTED_AT:
                return None
            content = file.read_bytes()
            digest.update(f"{file.relative_to(root)} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _serialise(compiled: jax.stages.Compiled, out_info: Tree, arguments: tuple[Tree, ...]) -> bytes:
    """Returns the content of a file.

    Raises:
        ValueError: Another process could not run the program.
    """
    executable, shapes, results = compiled.runtime_executable(), _shapes(arguments), _describe(out_info)
    assert executable is not None
    targets = set(re.findall(r'custom_call_target="([^"]*)"', compiled.as_text() or ""))
    # JAX registers the functions that a program calls when it lowers it. Of these, only LAPACK is done in `_load`.
    if unknown := [target for target in targets if not _LAPACK.fullmatch(target)]:
        raise ValueError(f"the program calls {unknown}")
    if jax.tree.structure(_skeleton(results)) != jax.tree.structure(out_info):
        raise ValueError("the results have a type that cannot be described")
    counts = len(executable.get_parameter_layouts()), len(executable.get_output_layouts())
    if counts != (len(shapes), len(jax.tree.leaves(out_info))):
        raise ValueError("the program has other arguments or results than the function")
    header = {"arguments": shapes, "results": results, "lapack": bool(targets)}
    content = json.dumps(header).encode() + b"\n" + zlib.compress(executable.serialize(), level=1)
    return hashlib.sha256(content).digest() + content


def _write(file: Path, content: bytes) -> None:
    """Writes a file at once, so that no other process reads a part of it."""
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as temporary:
        try:
            temporary.write(content)
            temporary.close()
            Path(temporary.name).replace(file)
        except BaseException:
            Path(temporary.name).unlink(missing_ok=True)
            raise


def _load(stored: bytes, arguments: tuple[Tree, ...]) -> Callable[..., Any]:
    checksum, content = stored[:32], stored[32:]
    if hashlib.sha256(content).digest() != checksum:
        raise ValueError("the file is damaged")
    line, _, compressed = content.partition(b"\n")
    header = json.loads(line)
    if header["arguments"] != _shapes(arguments):
        raise ValueError("the program has other arguments")
    if header["lapack"]:
        lapack.prepare_lapack_call("geqrf_ffi", np.dtype(np.float32))
    device = jax.devices()[0]
    devices = xla_client.DeviceList((device,))
    executable = device.client.deserialize_executable(zlib.decompress(compressed), devices)
    skeleton = _skeleton(header["results"])
    is_key, tree = jax.tree.leaves(skeleton), jax.tree.structure(skeleton)

    def call(*arguments: Tree) -> Tree:
        # XLA would read an array of another dtype as if it had the right one.
        if header["arguments"] != _shapes(arguments):
            raise TypeError("the program has other arguments")
        leaves = [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in jax.tree.leaves(arguments)]
        results = executable.execute_sharded(
            [*map(jnp.asarray, leaves)]
        ).disassemble_into_single_device_arrays()
        arrays = [
            jax.random.wrap_key_data(leaf) if key else leaf
            for (leaf,), key in zip(results, is_key, strict=True)
        ]
        return jax.tree.unflatten(tree, arrays)

    return call


def _shapes(arguments: tuple[Tree, ...]) -> list[Any]:
    return [[list(leaf.shape), str(leaf.dtype)] for leaf in jax.tree.leaves(arguments)]


def _describe(tree: Tree) -> Any:
    """Returns a tree as JSON: types and keys of its nodes, and whether its leaves are random keys."""
    match tree:
        case None:
            return None
        case dict():
            return {"dict": {name: _describe(child) for name, child in tree.items()}}
        case tuple() if hasattr(tree, "_fields"):
            kind = type(tree)
            return {"class": [kind.__module__, kind.__qualname__], "fields": [*map(_describe, tree)]}
        case tuple() | list():
            return {type(tree).__name__: [*map(_describe, tree)]}
    if _is_key(tree) and tree.dtype != jax.eval_shape(jax.random.key, 0).dtype:
        raise ValueError("a random key is not of the default kind")
    return _is_key(tree)


def _skeleton(described: Any) -> Tree:
    """Returns a tree that `_describe` has described. Its leaves say whether they are random keys."""
    match described:
        case {"dict": children}:
            return {name: _skeleton(child) for name, child in children.items()}
        case {"class": [module, name], "fields": children}:
            return _named_tuple(module, name)(*map(_skeleton, children))
        case {"tuple": children}:
            return tuple(map(_skeleton, children))
        case {"list": children}:
            return [*map(_skeleton, children)]
    return described


def _named_tuple(module: str, name: str) -> Any:
    if module.partition(".")[0] not in ("gemax", "optax"):
        raise ValueError(f"{module} is not a module of a state")
    # A file must not import anything. What defines a state has been imported.
    kind = getattr(sys.modules[module], name)
    if not (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")):
        raise ValueError(f"{module}.{name} is not a named tuple")
    return kind


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
