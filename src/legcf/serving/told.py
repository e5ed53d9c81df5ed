# SPDX-License-Identifier: Apache-2.0
"""The operations that tell the server something: events, and which items are available. Kept in the event log."""

import time
from functools import partial

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from legcf.serving import schemas
from legcf.serving.events import Change, new_event
from legcf.serving.gate import Json
from legcf.serving.holder import Holder
from legcf.serving.journal import Journal
from legcf.serving.latest import id_text
from legcf.serving.operations import Operation, read_body, read_query


class Told:
    def __init__(self, holder: Holder, journal: Journal) -> None:
        self._holder, self._journal = holder, journal

    def operations(self) -> list[Operation]:
        item = partial(
            Operation,
            "PUT",
            answer=schemas.Stocked,
            query=schemas.ItemQuery,
            body=schemas.Stock,
            problems=(413, 503),
        )
        available = "Whether an item may be recommended from now on"
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
            item("/items/{item:id}", f"{available}.", self.available),
            item("/items", f"{available}, with the id in the query.", self.available),
        ]

    async def interactions(self, request: HttpRequest) -> Response:
        events = (await read_body(request, schemas.NewEvents)).events
        loaded = self._holder.current
        model = loaded.scorer.model
        parcel = [
            new_event(id_text(model.users, event.user), id_text(model.items, event.item), event.id, event.time)
            for event in events
        ]
        new = await self._journal.write(parcel)
        unknown = list(dict.fromkeys(event.item for event in events if model.items.find(event.item) is None))
        return Json({"model": loaded.tag, "new": new, "repeated": len(parcel) - new, "unknown_items": unknown})

    async def available(self, request: HttpRequest) -> Response:
        item = read_query(request, schemas.ItemQuery).item
        available = (await read_body(request, schemas.Stock)).available
        loaded = self._holder.current
        items = loaded.scorer.model.items
        await self._journal.write([Change(id_text(items, item), available, time.time())])
        known = items.find(item) is not None
        return Json({"model": loaded.tag, "item": item, "available": available, "known": known})
