"""Answers equal requests that wait at the same time with one computation."""

import asyncio
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool


class SameRequests:
    """Computes answers in threads. Many pages that ask for the same cost as much as two.

    A request shares a computation that has not started yet. One that is running may have read files before the last
    change, so a request that comes later is not answered by it.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Task[bytes]] = {}
        self._running: dict[str, asyncio.Task[bytes]] = {}

    async def answer(self, address: str, compute: Callable[[], bytes]) -> bytes:
        """Returns what `compute` returns. It depends on the address and on the state of the folder only."""
        task = self._waiting.get(address)
        if task is None:
            task = asyncio.create_task(self._compute(address, compute))
            self._waiting[address] = task
        # A page that closes does not take the answer from the others.
        return await asyncio.shield(task)

    async def _compute(self, address: str, compute: Callable[[], bytes]) -> bytes:
        running = self._running.get(address)
        if running is not None:
            await asyncio.wait([running])
        self._running[address] = self._waiting.pop(address)
        try:
            return await run_in_threadpool(compute)
        finally:
            del self._running[address]
