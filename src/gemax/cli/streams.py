"""Standard streams that cannot end a run: closed, full or not able to encode a character."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any


class TolerantStream:
    """A text stream that discards what it cannot write, because its pipe is closed or its disk is full."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes text if possible."""
        with contextlib.suppress(OSError, ValueError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flushes if possible."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def tolerant_streams() -> Iterator[None]:
    """Replaces stdout and stderr by tolerant ones until the program ends."""
    _open_missing_descriptors()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w")  # noqa: SIM115 (open until the program ends)
        # Characters that the encoding does not have are replaced.
        stream.reconfigure(errors="replace")
        setattr(sys, name, TolerantStream(stream))
    try:
        yield
    finally:
        for stream in (sys.__stdout__, sys.__stderr__):
            _flush_or_discard(stream)


def _open_missing_descriptors() -> None:
    """Opens closed standard descriptors on the null device. Otherwise the next file to be opened would get them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest descriptor that is free


def _flush_or_discard(stream: Any) -> None:
    """Flushes a stream. If that fails, sends its text to the null device, or Python would exit with an error."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            stream.flush()
