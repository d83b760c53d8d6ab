"""Returns freed memory to the operating system."""

import ctypes
from typing import Any


def release_free_memory() -> None:
    """Returns memory that is free, but that the C library keeps, to the operating system. Takes milliseconds.

    glibc has a heap per thread, and each keeps its largest size so far. A training process can then grow when another
    thread of XLA happens to hold the large temporary arrays. Other C libraries have no `malloc_trim`.
    """
    trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
