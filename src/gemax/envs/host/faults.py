"""Describes exceptions of Gymnasium environments, and limits the time that they may take."""

import contextlib
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from gemax.errors import EnvFault
from gemax.stopping import check_stop

CLOSE_SECONDS = 10.0
"""Time for environments to close before they are abandoned or killed."""
STOP_CHECK_SECONDS = 0.5
"""Time between checks whether the user asks to stop, while an environment does not answer."""


def describe_exception(error: BaseException) -> str:
    """Returns the exception and the line of code that raised it, as one line of text."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":.")
    return f"raised {message} ({last.filename}:{last.lineno})"


def in_main_thread() -> bool:
    """Whether `time_limit` works here. Signals only reach the main thread."""
    return threading.current_thread() is threading.main_thread()


def timeout_fault(location: str, seconds: float) -> EnvFault:
    """Returns the fault of an environment that exceeds the time limit."""
    return EnvFault(f"{location}: did not answer within {seconds:g} s. Raise env_timeout if it needs longer.")


def close_in_time(env: Any, name: str) -> None:
    """Closes an environment. Warns if that raises or takes too long."""
    fault = timeout_fault(f"close() of {name}", CLOSE_SECONDS)
    try:
        with time_limit(CLOSE_SECONDS, lambda: fault):
            env.close()
    except (Exception, SystemExit) as error:
        reason = error if isinstance(error, EnvFault) else f"close() of {name} {describe_exception(error)}."
        warnings.warn(str(reason), stacklevel=2)


@contextlib.contextmanager
def time_limit(seconds: float, make_fault: Callable[[], EnvFault]) -> Iterator[None]:
    """Raises a fault if the `with` block takes longer. Does nothing outside of the main thread, or for 0 seconds.

    Uses an alarm signal, which costs microseconds and interrupts an environment that sleeps, also if the user asks to
    stop. It cannot interrupt compiled code that does not return to Python.
    """
    if not seconds or not in_main_thread():
        yield
        return

    deadline = time.monotonic() + seconds

    def on_alarm(signal_number: int, frame: Any) -> None:
        nonlocal deadline
        check_stop()
        if time.monotonic() >= deadline:
            # An environment that is restarted has as much time again.
            deadline += seconds
            raise make_fault()

    handler = signal.signal(signal.SIGALRM, on_alarm)
    first = min(seconds, STOP_CHECK_SECONDS)
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, first, STOP_CHECK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        # Restores an alarm that other code has set. It comes late by the time of the block.
        if remaining:
            signal.setitimer(signal.ITIMER_REAL, remaining, interval)
