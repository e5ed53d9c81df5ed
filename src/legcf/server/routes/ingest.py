# SPDX-License-Identifier: Apache-2.0
"""The operations that tell the server something: events, which items are available, what new ones are like. Kept in the
event log."""

import time
from functools import partial

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from legcf.scoring.extend import NewItem
from legcf.server import schemas
from legcf.server.background.event_journal import Journal
from legcf.server.middleware import Json
from legcf.server.routes.operations import Operation, read_body, read_query
from legcf.server.state.event_log import Change, Described, LogEntry, new_event
from legcf.server.state.live_state import id_text
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
        ]

    async def interactions(self, request: HttpRequest) -> Response:
        events = (await read_body(request, schemas.NewEvents)).events
        loaded = self._manager.current
        model = loaded.scorer.model
        parcel = [
            new_event(id_text(model.users, event.user), id_text(model.items, event.item), event.id, event.time)
            for event in events
        ]
        new = await self._journal.write(parcel)
        unknown = list(dict.fromkeys(event.item for event in events if model.items.find(event.item) is None))
        return Json({"model": loaded.tag, "new": new, "repeated": len(parcel) - new, "unknown_items": unknown})

    async def item(self, request: HttpRequest) -> Response:
        item = read_query(request, schemas.ItemQuery).item
        news = await read_body(request, schemas.ItemNews)
        model, now = self._manager.current.scorer.model, time.time()
        name = id_text(model.items, item)
        entries: list[LogEntry] = []
        if news.available is not None:
            entries.append(Change(name, news.available, now))
        if news.features is not None:
            NewItem.of(model, name, news.features)  # refused before it is written where it cannot be placed
            entries.append(Described(name, news.features, news.title, now))
        await self._journal.write(entries)
        if news.features is not None:
            await self._manager.reload_if_changed()
        loaded = self._manager.current
        known = loaded.scorer.model.items.find(item) is not None
        return Json({"model": loaded.tag, "item": item, "available": news.available, "known": known})
