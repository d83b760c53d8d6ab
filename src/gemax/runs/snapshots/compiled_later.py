"""Compiles functions in the background."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp

COMPILE_TIMEOUT_SECONDS = 10.0
"""How long the end of a run waits for a program that is being compiled."""


class CompiledLater:
    """Compiles a function in a thread, because training must not wait for it."""

    def __init__(self, function: Callable, *, is_optimised: bool) -> None:
        self._function, self._is_optimised = function, is_optimised
        self._thread = ThreadPoolExecutor(1, "snapshots")
        self._pending: Future[Callable] | None = None

    def start(self, *arguments: Any) -> None:
        """Starts to compile for arguments of these shapes, unless this has started already."""
        if self._pending is None:
            shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), leaf.dtype), arguments)
            self._pending = self._thread.submit(self._compile, shapes)

    def ready(self, *, wait: bool) -> Callable | None:
        """Returns the compiled function, or None if it is not compiled yet."""
        if self._pending is None:
            return None
        try:
            return self._pending.result(COMPILE_TIMEOUT_SECONDS if wait else 0.0)
        except TimeoutError:
            return None

    def close(self) -> None:
        """Ends the thread, without waiting for it."""
        self._thread.shutdown(wait=False)

    def _compile(self, shapes: tuple) -> Callable:
        options = (
            {}
            if self._is_optimised
            else {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
        )
        return jax.jit(self._function).lower(*shapes).compile(compiler_options=options)
