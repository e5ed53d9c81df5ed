# SPDX-License-Identifier: Apache-2.0
"""Queue long work: one small piece at a time, so that everybody who waits gets a turn.

A piece is a wait for the helper process (`legcf.server.background.process`), which does the work, or work in a thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_MAX_WAITING = 64  # requests

_Result = TypeVar("_Result")


class Busy(Exception):
    """Refuse work where so many wait already that another would only wait in vain."""


class ClientDisconnected(Exception):
    """Stop working for a client that has gone."""


class SlowQueue:
    def __init__(self, max_waiting: int = _MAX_WAITING) -> None:
        self._thread = ThreadPoolExecutor(1, "slow-queue")
        self._turn = asyncio.Lock()  # who has waited longest is next
        self._max_waiting, self._num_waiting = max_waiting, 0

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def in_thread(self, work: Callable[[], _Result]) -> _Result:
        """Return the result of work that is done in the thread of this queue."""
        loop = asyncio.get_running_loop()
        return (await self.run_all([lambda: loop.run_in_executor(self._thread, work)]))[0]

    async def run_all(
        self,
        pieces: Iterable[Callable[[], Awaitable[_Result]]],
        is_disconnected: Callable[[], Awaitable[bool]] | None = None,
    ) -> list[_Result]:
        """Return the results of all pieces, in their order; none are worked on for a client that has gone."""
        if self._num_waiting >= self._max_waiting:
            raise Busy
        self._num_waiting += 1
        results = []
        try:
            for piece in pieces:
                if is_disconnected is not None and await is_disconnected():
                    raise ClientDisconnected
                async with self._turn:
                    results.append(await piece())
            return results
        finally:
            self._num_waiting -= 1
