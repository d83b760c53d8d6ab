"""Server-sent events: tells every open page which runs have changed. One task watches for all of them."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator

from gemax.view.library import Fingerprint, Library

WATCH_SECONDS = 1.0
"""Least time between two looks at the folder."""
MAX_SHARE = 0.03
"""Share of the time that looks may take. Many runs, or a busy machine, are looked at less often."""
MAX_WATCH_SECONDS = 10.0
"""Largest time between two looks."""
HEARTBEAT_SECONDS = 15.0
"""A comment after this time of silence shows that the connection is alive."""


class Changes:
    """Watches a folder while at least one page is open.

    Args:
        library: The runs to watch.
        watch_seconds: Least time between two looks.
    """

    def __init__(self, library: Library, watch_seconds: float = WATCH_SECONDS) -> None:
        self._library, self._watch_seconds = library, watch_seconds
        self._known: dict[str, Fingerprint] | None = None
        self._pages: set[asyncio.Queue[list[str]]] = set()
        self._watcher: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def close(self) -> None:
        """Ends all streams, so that the server can stop. Can be called from a signal handler."""
        self._is_closed = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the server has stopped already
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for queue in self._pages:
            queue.put_nowait([])

    async def stream(self) -> AsyncIterator[bytes]:
        """Yields an event whenever runs have changed, with their names."""
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[list[str]] = asyncio.Queue()
        self._pages.add(queue)
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch())
        try:
            yield b"retry: 2000\n\n"
            while not self._is_closed:
                try:
                    changed = set(await asyncio.wait_for(queue.get(), HEARTBEAT_SECONDS))
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                while not queue.empty():  # a slow page gets one event for all changes it has missed
                    changed.update(queue.get_nowait())
                if changed:
                    yield b"data: " + json.dumps({"changed": sorted(changed)}).encode() + b"\n\n"
        finally:
            self._pages.discard(queue)

    async def _watch(self) -> None:
        while self._pages and not self._is_closed:
            started = time.monotonic()
            found = await asyncio.to_thread(self._library.fingerprints)
            seconds = time.monotonic() - started
            known, self._known = self._known, found
            if known is not None:
                changed = [name for name in known.keys() | found.keys() if known.get(name) != found.get(name)]
                if changed:
                    for queue in self._pages:
                        queue.put_nowait(changed)
            await asyncio.sleep(min(max(self._watch_seconds, seconds / MAX_SHARE), MAX_WATCH_SECONDS))
        self._known = None
