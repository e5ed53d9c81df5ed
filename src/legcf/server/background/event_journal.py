# SPDX-License-Identifier: Apache-2.0
"""Writing down what requests bring: those that come while one transaction goes to the disk share the next."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from legcf.server.background.queue import Busy
from legcf.server.logs import log
from legcf.server.state.event_log import EventLog, LogEntry

_MOST_WAITING = 20_000  # entries; beyond, the disk does not keep up
_SPREAD_SECONDS = 0.02  # over which the acknowledgements of a transaction are sent

EventBatch = Sequence[LogEntry]


class NotWritten(Exception):
    """The disk refused; nothing of the request was kept."""


class Journal:
    """Of one worker: a thread of its own, since the disk takes milliseconds."""

    def __init__(self, folder: str) -> None:
        self._log = EventLog(folder)
        self._thread = ThreadPoolExecutor(1, "journal")
        self._waiting: list[tuple[EventBatch, asyncio.Future[int]]] = []
        self._entries = 0
        self._writing: asyncio.Task[None] | None = None

    async def write(self, parcel: EventBatch) -> int:
        """How many entries were new; all of them are on disk."""
        if self._entries + len(parcel) > _MOST_WAITING:
            raise Busy
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((parcel, done))
        self._entries += len(parcel)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await done

    async def close(self) -> None:
        if self._writing is not None:
            await self._writing
        self._thread.shutdown()
        self._log.close()

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            together, self._waiting = self._waiting, []
            parcels = [parcel for parcel, _ in together]
            try:
                counts = await loop.run_in_executor(self._thread, self._log.write, parcels)
            except Exception as error:  # whatever it was, everybody who waits is told
                log("events_not_written", "error", reason=repr(error))
                for _, done in together:
                    if not done.done():
                        done.set_exception(NotWritten())
            else:
                await self._acknowledge([done for _, done in together], counts)
            self._entries -= sum(map(len, parcels))
        self._writing = None

    async def _acknowledge(self, waiting: Sequence[asyncio.Future[int]], counts: Sequence[int]) -> None:
        """Evenly, not at once: who asks for recommendations meanwhile would wait for all of them, and for the requests
        that their senders send next."""
        for done, count in zip(waiting, counts, strict=True):
            if not done.done():  # whoever sent it may have gone
                done.set_result(count)
            if len(waiting) > 1:
                await asyncio.sleep(_SPREAD_SECONDS / len(waiting))
