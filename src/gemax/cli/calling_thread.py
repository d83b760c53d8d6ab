"""Lets JAX compute in the thread that calls it, so that the memory of a long run stays flat."""

import jax


def compute_in_calling_thread() -> None:
    """Lets JAX start computations on the CPU in the calling thread. Has no effect if JAX has started already.

    By default JAX starts a computation in any thread of a pool. glibc has a heap per thread, and each keeps room for
    the temporary arrays of an update (17 MB in 2-Rooms), so that a run grew whenever another thread took part.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)
