"""Handlers for Ctrl-C and SIGTERM: stop after the current compiled call, or interrupt with clean-up."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, as KeyboardInterrupt is on Ctrl-C."""


@dataclass
class StopRequest:
    """Whether the user asked the program to stop."""

    signal: int | None = None
    """The signal received, or None."""


@contextlib.contextmanager
def catch_stop_signals() -> Iterator[StopRequest]:
    """Records the first Ctrl-C or SIGTERM in the yielded request. A second one interrupts at once."""
    request = StopRequest()

    def handle(number: int, frame: Any) -> None:
        if request.signal is not None:
            _interrupt(number, frame)
        request.signal = number

    with _handle_signals(handle, signal.SIGINT, signal.SIGTERM):
        yield request


def interrupt_on_sigterm() -> contextlib.AbstractContextManager[None]:
    """Raises `Terminated` on SIGTERM, so that `finally` blocks and context managers clean up."""
    return _handle_signals(_interrupt, signal.SIGTERM)


def _interrupt(number: int, frame: Any) -> None:
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


@contextlib.contextmanager
def _handle_signals(handler: Callable[[int, Any], None], *numbers: signal.Signals) -> Iterator[None]:
    try:
        previous = {number: signal.signal(number, handler) for number in numbers}
    except ValueError:
        # Python allows signal handlers in the main thread only. Other threads go without.
        yield
        return
    try:
        yield
    finally:
        for number, handler_before in previous.items():
            signal.signal(number, handler_before)
