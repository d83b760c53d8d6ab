"""Freed memory goes back to the operating system."""

import platform
import resource
from pathlib import Path

import pytest

from gemax.runs.free_memory import release_free_memory

NUM_BLOCKS, BLOCK_SIZE = 1_000, 100_000
"""Blocks below 128 KiB, which glibc takes from a heap and not from the operating system."""


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed memory and can be trimmed"
)
def test_freed_memory_between_blocks_that_are_in_use_is_returned_to_the_system():
    blocks = [bytearray(BLOCK_SIZE) for _ in range(NUM_BLOCKS)]
    in_use = blocks[::50]
    del blocks
    before = resident_bytes()
    release_free_memory()
    assert before - resident_bytes() > 0.8 * NUM_BLOCKS * BLOCK_SIZE
    assert all(block == bytearray(BLOCK_SIZE) for block in in_use)
