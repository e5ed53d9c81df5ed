# SPDX-License-Identifier: Apache-2.0
"""The slow lane: long work, one small piece at a time in one thread, so that everybody in it gets a turn.

A piece mostly waits there for the helper process (`legcf.server.background.process`), which does the work.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_MOST_WAITING = 64

_Result = TypeVar("_Result")


class Busy(Exception):
    """So many wait in the lane that another would only wait in vain."""


class ClientDisconnected(Exception):
    """Whoever asked has gone."""


class SlowQueue:
    def __init__(self, most_waiting: int = _MOST_WAITING) -> None:
        self._thread = ThreadPoolExecutor(1, "slow-lane")
        self._most_waiting, self._inside = most_waiting, 0

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def run(self, piece: Callable[[], _Result]) -> _Result:
        return (await self.run_all([piece]))[0]

    async def run_all(
        self, pieces: Iterable[Callable[[], _Result]], abandoned: Callable[[], Awaitable[bool]] | None = None
    ) -> list[_Result]:
        """The results of all pieces, in their order; none are worked on for somebody who has gone."""
        if self._inside >= self._most_waiting:
            raise Busy
        self._inside += 1
        loop = asyncio.get_running_loop()
        results = []
        try:
            for piece in pieces:
                if abandoned is not None and await abandoned():
                    raise ClientDisconnected
                results.append(await loop.run_in_executor(self._thread, piece))
            return results
        finally:
            self._inside -= 1
