"""Ctrl-C and SIGTERM: as a wish to end, heard between two compiled calls, or as an end that cleans up behind itself."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM, where Ctrl-C would be a `KeyboardInterrupt`."""


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
            _interrupt(number, frame)
        stop.signal = number

    with _handling(ask, signal.SIGINT, signal.SIGTERM):
        yield stop


def cleaning_up() -> contextlib.AbstractContextManager[None]:
    """SIGTERM ends what is under way as Ctrl-C does: nothing half done is left behind."""
    return _handling(_interrupt, signal.SIGTERM)


def _interrupt(number: int, frame: Any) -> None:
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


@contextlib.contextmanager
def _handling(handler: Callable[[int, Any], None], *numbers: signal.Signals) -> Iterator[None]:
    try:
        before = {number: signal.signal(number, handler) for number in numbers}
    except ValueError:
        # Signals can be caught in the main thread only; elsewhere they are somebody else's.
        yield
        return
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
