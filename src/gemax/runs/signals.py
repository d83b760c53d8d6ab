"""Ctrl-C and SIGTERM as a wish to end, heard between two compiled calls."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


class Stop:
    """Whether a signal has asked the run to end."""

    def __init__(self) -> None:
        self.signal: int | None = None


@contextlib.contextmanager
def listening() -> Iterator[Stop]:
    """Turns the first Ctrl-C or SIGTERM into a wish; a second one stops at once."""
    stop = Stop()

    def ask(number: int, frame: Any) -> None:
        if stop.signal is not None:
            raise KeyboardInterrupt
        stop.signal = number

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:
        # Signals can be caught in the main thread only; elsewhere they are somebody else's.
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
