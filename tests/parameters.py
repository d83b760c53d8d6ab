"""Parameters of tests that take long for each value."""

from collections.abc import Iterable

import pytest


def fast_or_slow(values: Iterable[str], fast: Iterable[str]) -> list:
    """Returns all values as parameters. Those that are not in `fast` are only tested by `make test-slow`."""
    fast = set(fast)
    return [value if value in fast else pytest.param(value, marks=pytest.mark.slow) for value in values]
