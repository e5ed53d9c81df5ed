# SPDX-License-Identifier: Apache-2.0
"""Take reports and keep them in the event log: events, which items are available, what new items are like."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from legcf.core.errors import UserError
from legcf.data.ids import ExternalId
from legcf.data.options import OTHER_KINDS, kind_weights
from legcf.modelfile.served_model import EVENT_WEIGHTS
from legcf.scoring.extend import NewItem
from legcf.server import schemas
from legcf.server.answers import UnknownId
from legcf.server.background.event_journal import EventBatch
from legcf.server.encoding import Json
from legcf.server.routes.administration import audit
from legcf.server.routes.operations import Operation, read_body, read_query
from legcf.server.routes.services import Services
from legcf.server.state.log_entries import (
    TAKEN_BACK,
    Change,
    DeletedItem,
    Described,
    Event,
    Impression,
    LogEntry,
    Withdrawn,
    new_event,
    new_names,
)
from legcf.server.state.records import Records

_AT_ONCE = 250  # events of a request, of which a thousand take milliseconds; then others go in between
_CLOCKS_DIFFER = 86_400.0  # seconds that a clock of another machine may be ahead


@lru_cache(maxsize=2)
def _known_weights(text: str | None) -> Mapping[str, float]:
    """Return the weights of kinds of events that a model's card names; none where it names none, or nonsense."""
    try:
        return kind_weights(text) if text is not None else {}
    except ValueError:
        return {}


def _weight(event: schemas.NewEvent, card: Mapping[str, Any]) -> float | None:
    """Return how much an event counts: as it says, else as the model was trained to weigh its kind."""
    weight, kind, metrics = event.get("weight"), event.get("kind"), card.get("metrics")
    if weight is None and kind is not None:
        known = metrics.get(EVENT_WEIGHTS) if isinstance(metrics, dict) else None
        weights = _known_weights(known if isinstance(known, str) else None)
        weight = weights.get(kind, weights.get(OTHER_KINDS))
        if weight is None:
            kinds = ", ".join(weights)[:200] or "none"
            raise UserError(
                f"This model has no weight for events of the kind {kind!r} (it knows {kinds}): send a `weight`."
            )
    if weight == TAKEN_BACK:
        raise UserError("An event of weight 0 says nothing: leave it out, or take one back by DELETE /interactions.")
    return weight


def _time(said: float | None) -> float:
    """Return when it was, now by default; later than that is refused, for half-lives count from the latest time."""
    now = time.time()
    if said is not None and said > now + _CLOCKS_DIFFER:
        raise UserError(f"The time {said:,.0f} is in the future: send seconds since 1970, or leave `time` out.")
    return now if said is None else said


class IngestApi:
    """Declare its operations for any server; one that takes no events (`journal` is None) routes none of them."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def operations(self) -> list[Operation]:
        item = partial(Operation, answer=schemas.ItemTaken, query=schemas.ItemQuery, name="items")
        change = partial(item, "PUT", body=schemas.ItemNews, problems=(409, 503))
        withdrawal = partial(item, "DELETE", query=schemas.ItemDeletion, problems=(404, 409, 503))
        took = "What users took: acknowledged once it is on disk, known to every answer after that."
        about = "Whether an item may be recommended from now on, and what it is like"
        back = "Take back what was said of a new item's features and title, or with `whole` all that is held of an item"
        shown = "What users were shown: counts where a request has `damping` or `max_shown`."
        query = "with the id in the query."
        events = partial(Operation, path="/interactions", answer=schemas.Acknowledged, name="interactions")
        gone = "Let whatever is known of a user and an item count no more: what it took, and what it dislikes."
        kept = schemas.ImpressionsKept
        shows = partial(Operation, "POST", answer=kept, body=schemas.Impressions, problems=(409, 503))
        return [
            events("POST", summary=took, endpoint=self.interactions, body=schemas.NewEvents, problems=(409, 503)),
            events("DELETE", summary=gone, endpoint=self.take_back, query=schemas.TakenBackQuery, problems=(503,)),
            shows("/impressions", shown, self.impressions, name="impressions"),
            change("/items/{item:id}", f"{about}.", self.item),
            change("/items", f"{about}, {query}", self.item),
            withdrawal("/items/{item:id}", f"{back}.", self.withdraw),
            withdrawal("/items", f"{back}, {query}", self.withdraw),
        ]

    async def interactions(self, request: HttpRequest) -> Response:
        events = (await read_body(request, schemas.NewEvents)).events
        loaded = self._services.manager.current
        card, entries = loaded.scorer.model.card, list[Event]()
        for e, name in zip(events, new_names(len(events)), strict=True):
            if len(entries) % _AT_ONCE == 0:
                await asyncio.sleep(0)
            weight, user, item = _weight(e, card), str(e["user"]), str(e["item"])
            entries.append(Event(e.get("id") or name, user, item, _time(e.get("time")), e.get("kind"), weight))
        await asyncio.sleep(0)
        return await self._acknowledged(entries, [one["item"] for one in events])

    async def take_back(self, request: HttpRequest) -> Response:
        query = read_query(request, schemas.TakenBackQuery)
        event = new_event(query.user, query.item, query.id, weight=TAKEN_BACK)
        return await self._acknowledged([event], [query.item])

    async def _acknowledged(self, events: list[Event], items: Sequence[ExternalId]) -> Response:
        """Write events, and say which were new and which items the model does not have."""
        loaded = self._services.manager.current
        new = await self._write(events)
        unknown = list(dict.fromkeys(item for item in items if loaded.scorer.model.items.find(item) is None))
        return Json({"model": loaded.tag, "new": new, "repeated": len(events) - new, "unknown_items": unknown})

    async def impressions(self, request: HttpRequest) -> Response:
        pages = (await read_body(request, schemas.Impressions)).impressions
        await asyncio.sleep(0)
        timed = [(str(page.user), _time(page.time), page.items) for page in pages]
        kept = await self._write([Impression(user, str(item), at) for user, at, items in timed for item in items])
        return Json({"model": self._services.manager.current.tag, "kept": kept})

    async def item(self, request: HttpRequest) -> Response:
        item = read_query(request, schemas.ItemQuery).item
        news = await read_body(request, schemas.ItemNews)
        model, now = self._services.manager.current.scorer.model, time.time()
        entries: list[LogEntry] = []
        if news.available is not None:
            entries.append(Change(item, news.available, now))
        if news.features is not None:
            # Refused before it is written if the model cannot make a vector; hashing a megabyte of words takes 0.1 s.
            await self._services.slow_queue.in_thread(partial(NewItem.of, model, item, news.features))
            entries.append(Described(item, news.features, news.title, now))
        await self._write(entries)
        return await self._taken(item, news.available, is_described_anew=news.features is not None)

    async def withdraw(self, request: HttpRequest) -> Response:
        query = read_query(request, schemas.ItemDeletion)
        item = query.item
        if query.whole:
            return await self._delete(request, item)
        if not await self._write([Withdrawn(item, time.time())]):
            raise UnknownId("description of an item", item)
        return await self._taken(item, None, is_described_anew=True)

    async def _delete(self, request: HttpRequest, item: str) -> Response:
        services = self._services
        if services.settings.api_key is None:
            raise UserError("An item is deleted whole on a server with a key alone: start it with `--api-key`.")
        records = Records(services.manager.current, services.live)
        if not await services.slow_queue.in_thread(partial(records.knows_item, item)):
            raise UnknownId("item", item)
        await self._write([DeletedItem(item, time.time())])
        audit(request, services, "item_deleted", item=item)
        return await self._taken(item, False, is_described_anew=True)

    async def _write(self, batch: EventBatch) -> int:
        assert self._services.journal is not None
        return await self._services.journal.write(batch)

    async def _taken(self, item: str, available: bool | None, is_described_anew: bool) -> Response:
        if is_described_anew:
            await self._services.manager.reload_if_changed()
        loaded = self._services.manager.current
        known = loaded.scorer.model.items.find(item) is not None
        return Json({"model": loaded.tag, "item": item, "available": available, "known": known})
