# SPDX-License-Identifier: Apache-2.0
"""The operations that tell the server something: events, which items are available, what new ones are like. Kept in the
event log."""

import time
from functools import partial

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from legcf.scoring.extend import NewItem
from legcf.server import schemas
from legcf.server.answers import UnknownId
from legcf.server.background.event_journal import Journal
from legcf.server.middleware import Json
from legcf.server.routes.operations import Operation, read_body, read_query
from legcf.server.state.event_log import Change, Described, LogEntry, Withdrawn, new_event
from legcf.server.state.model_manager import ModelManager


class IngestApi:
    def __init__(self, holder: ModelManager, journal: Journal) -> None:
        self._manager, self._journal = holder, journal

    def operations(self) -> list[Operation]:
        item = partial(
            Operation,
            "PUT",
            answer=schemas.ItemTaken,
            query=schemas.ItemQuery,
            body=schemas.ItemNews,
            problems=(409, 413, 422, 503),
        )
        withdrawal = partial(
            Operation, "DELETE", answer=schemas.ItemTaken, query=schemas.ItemQuery, problems=(404, 422, 503)
        )
        back = "Take back what was said of a new item's features and title; an item of the file itself stays"
        about = "Whether an item may be recommended from now on, and what it is like"
        taken = "What users took: acknowledged once it is on disk, known to every answer after that."
        return [
            Operation(
                "POST",
                "/interactions",
                taken,
                self.interactions,
                schemas.Acknowledged,
                body=schemas.NewEvents,
                problems=(413, 422, 503),
            ),
            item("/items/{item:id}", f"{about}.", self.item),
            item("/items", f"{about}, with the id in the query.", self.item),
            withdrawal("/items/{item:id}", f"{back}.", self.withdraw),
            withdrawal("/items", f"{back}, with the id in the query.", self.withdraw),
        ]

    async def interactions(self, request: HttpRequest) -> Response:
        events = (await read_body(request, schemas.NewEvents)).events
        loaded = self._manager.current
        model = loaded.scorer.model
        parcel = [new_event(str(event.user), str(event.item), event.id, event.time) for event in events]
        new = await self._journal.write(parcel)
        unknown = list(dict.fromkeys(event.item for event in events if model.items.find(event.item) is None))
        return Json({"model": loaded.tag, "new": new, "repeated": len(parcel) - new, "unknown_items": unknown})

    async def item(self, request: HttpRequest) -> Response:
        item = read_query(request, schemas.ItemQuery).item
        news = await read_body(request, schemas.ItemNews)
        model, now = self._manager.current.scorer.model, time.time()
        entries: list[LogEntry] = []
        if news.available is not None:
            entries.append(Change(item, news.available, now))
        if news.features is not None:
            NewItem.of(model, item, news.features)  # refused before it is written where it cannot be placed
            entries.append(Described(item, news.features, news.title, now))
        await self._journal.write(entries)
        return await self._taken(item, news.available, news.features is not None)

    async def withdraw(self, request: HttpRequest) -> Response:
        item = read_query(request, schemas.ItemQuery).item
        if not await self._journal.write([Withdrawn(item, time.time())]):
            raise UnknownId("description of an item", item)
        return await self._taken(item, None, True)

    async def _taken(self, item: str, available: bool | None, is_described_anew: bool) -> Response:
        if is_described_anew:
            await self._manager.reload_if_changed()
        loaded = self._manager.current
        known = loaded.scorer.model.items.find(item) is not None
        return Json({"model": loaded.tag, "item": item, "available": available, "known": known})
