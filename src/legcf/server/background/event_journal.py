# SPDX-License-Identifier: Apache-2.0
"""Write down what requests bring: those that come while one transaction goes to the disk share the next."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from legcf.server.background.queue import Busy
from legcf.server.logs import log
from legcf.server.state.event_log import EventLog
from legcf.server.state.log_entries import LogEntry

_MAX_PENDING = 20_000  # entries; beyond, the disk does not keep up
_SPREAD_SECONDS = 0.02  # over which the acknowledgements of a transaction are sent

EventBatch = Sequence[LogEntry]


class NotWritten(Exception):
    """Report that the disk refused; nothing of the request was kept."""


class Journal:
    """Write for one worker, in a thread of its own, since the disk takes milliseconds."""

    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log
        self._thread = ThreadPoolExecutor(1, "journal")
        self._pending: list[tuple[EventBatch, asyncio.Future[int]]] = []
        self._num_pending = 0  # entries, those being written included
        self._writing: asyncio.Task[None] | None = None

    async def write(self, batch: EventBatch) -> int:
        """Return how many entries were new; all of them are on disk then."""
        if self._num_pending + len(batch) > _MAX_PENDING:
            raise Busy
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._pending.append((batch, done))
        self._num_pending += len(batch)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await done

    async def close(self) -> None:
        if self._writing is not None:
            await self._writing
        self._thread.shutdown()

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending:
            together, self._pending = self._pending, []
            batches = [batch for batch, _ in together]
            try:
                counts = await loop.run_in_executor(self._thread, self._log.write, batches)
            except Exception as error:  # whatever it was, everybody who waits hears of it
                log("events_not_written", "error", reason=repr(error))
                for _, done in together:
                    if not done.done():
                        done.set_exception(NotWritten())
            else:
                await self._acknowledge([done for _, done in together], counts)
            self._num_pending -= sum(map(len, batches))
        self._writing = None

    async def _acknowledge(self, waiting: Sequence[asyncio.Future[int]], counts: Sequence[int]) -> None:
        """Answer evenly, not at once: who asks for recommendations meanwhile would wait for all of these answers, and
        for the requests that their senders send next."""
        for done, count in zip(waiting, counts, strict=True):
            if not done.done():  # the sender may have gone
                done.set_result(count)
            if len(waiting) > 1:
                await asyncio.sleep(_SPREAD_SECONDS / len(waiting))
