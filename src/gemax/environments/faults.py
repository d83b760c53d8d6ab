"""What goes wrong in other people's environments, in words, and how long they may take."""

import contextlib
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any


class EnvironmentFault(Exception):  # noqa: N818 it is not our error
    """An environment did what it must not, and the run cannot go on. The message says which one, when, and what."""

    exit_code = 3


def in_words(error: Exception) -> str:
    """What was raised, and where, on one line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    words = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":.")
    return f"raised {words} ({last.filename}:{last.lineno})"


def has_alarm() -> bool:
    """Whether a time limit holds here: signals are for the main thread."""
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def time_limit(seconds: float, fault: Callable[[], EnvironmentFault]) -> Iterator[None]:
    """Raises a fault if the block takes longer. It asks for the main thread; in others, and for 0, nothing is limited.

    An alarm, not a thread that looks on: it costs microseconds, and interrupts an environment that sleeps for ever. One
    that is stuck in a library and never comes back to Python hears no alarm.
    """
    if not seconds or not has_alarm():
        yield
        return

    def ring(number: int, frame: Any) -> None:
        raise fault()

    handler = signal.signal(signal.SIGALRM, ring)
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        # Somebody else may be waiting for an alarm. It comes a little late.
        if remaining:
            signal.setitimer(signal.ITIMER_REAL, remaining, interval)
