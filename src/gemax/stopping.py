"""Ctrl-C, SIGTERM and SIGHUP: the first one sets a flag, which code checks where it can stop, and raises no exception.

An exception that is raised in a handler can surface anywhere. Inside a callback of JAX it is discarded, and during a
compilation it ends in a crash. Imports nothing heavy, because the command line uses it before everything else.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REPEAT_SECONDS = 1.0
"""Programs such as `timeout` send SIGTERM twice. A repetition within this time is ignored, except for Ctrl-C."""
SHOW_CURSOR = "\x1b[?25h"
"""Terminal code. A progress bar hides the cursor."""


@dataclass
class StopRequest:
    """Whether the user asked the program to stop."""

    signal: int | None = None
    """The signal received, or None."""
    received_at: float = 0.0
    """Monotonic time of the signal."""

    @property
    def age(self) -> float:
        """Seconds since the signal."""
        return time.monotonic() - self.received_at

    def record(self, number: int) -> bool:
        """Records a signal. Returns True if it is a second request, which means to end at once."""
        now = time.monotonic()
        if self.signal is None:
            self.signal, self.received_at = number, now
            _write_to_stderr(
                f"gemax: {signal.Signals(number).name} received, stopping. Press Ctrl-C to end at once.\n"
            )
            return False
        return number == signal.SIGINT or now - self.received_at > REPEAT_SECONDS


class Stopped(KeyboardInterrupt):
    """Raised by `check_stop` after a stop signal. Not an `Exception`, which other code might catch."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.signal = number


_current: StopRequest | None = None


def check_stop() -> None:
    """Raises `Stopped` if the user asked the program to stop. Call it where stopping leaves everything consistent."""
    if _current is not None and _current.signal is not None:
        raise Stopped(_current.signal)


@contextlib.contextmanager
def catch_stop_signals() -> Iterator[StopRequest]:
    """Records stop signals in the yielded request. Inside another such block, yields the request of that block.

    After the first signal, the next one is handled as it would be without this block.
    """

    def handle(number: int, frame: Any) -> None:
        if request.record(number):
            _restore(previous)
            before = previous[number]
            before(number, frame) if callable(before) else signal.raise_signal(number)

    if _current is not None:
        yield _current
        return
    request = StopRequest()
    previous = _install(handle)
    try:
        with _as_current(request):
            yield request
    finally:
        _restore(previous)


@contextlib.contextmanager
def stop_signals_of_program() -> Iterator[StopRequest]:
    """Records stop signals until the program ends. The second one ends the process at once, without clean-up.

    A thread receives the signals, because Python does not run handlers while the main thread compiles. After the
    block, a signal has its default effect: it kills the process.
    """
    request = StopRequest()
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(readable, request), name="stop signals", daemon=True).start()
    handled = _install(lambda number, frame: None)
    try:
        with _as_current(request):
            yield request
    finally:
        _restore(dict.fromkeys(handled, signal.SIG_DFL))


def _watch(descriptor: int, request: StopRequest) -> None:
    # Other signals, such as alarms, arrive here too.
    while received := os.read(descriptor, 1):
        if received[0] in SIGNALS and request.record(received[0]):
            _end_at_once(received[0])


def _end_at_once(number: int) -> NoReturn:
    """Kills the processes of the environments and ends this one. Files are written so that they stay valid."""
    with contextlib.suppress(Exception):
        if "multiprocessing" in sys.modules:
            for child in sys.modules["multiprocessing"].active_children():
                child.kill()
    _write_to_stderr(f"{SHOW_CURSOR if os.isatty(2) else ''}gemax: ended at once.\n")
    os._exit(128 + number)


def _write_to_stderr(text: str) -> None:
    # Not `print`: the signal may have interrupted another one, which must not be entered twice.
    with contextlib.suppress(OSError):
        os.write(2, text.encode())


@contextlib.contextmanager
def _as_current(request: StopRequest) -> Iterator[None]:
    global _current
    _current = request
    try:
        yield
    finally:
        _current = None


def _install(handler: Callable[[int, Any], None]) -> dict[int, Any]:
    """Installs a handler of the stop signals. Returns the previous handlers.

    Outside of the main thread, it installs nothing and returns an empty dict.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    # `nohup` ignores SIGHUP, and it stays ignored.
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    numbers = [number for number in SIGNALS if not (number == signal.SIGHUP and is_ignored)]
    return {number: signal.signal(number, handler) for number in numbers}


def _restore(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)
