# SPDX-License-Identifier: Apache-2.0
"""The page at `/` and the small questions it asks. Hand-written files in `web/`, nothing from outside."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from legcf.ranking.popularity import at_least_one
from legcf.ranking.tables.embedding_table import CodebookTable
from legcf.server.answers import UnknownId
from legcf.server.background.jobs import map_job
from legcf.server.background.process import Helper
from legcf.server.background.queue import SlowQueue
from legcf.server.encoding import encode
from legcf.server.item_map import hues
from legcf.server.routes.operations import Endpoint, read_query
from legcf.server.state.live_state import LiveState
from legcf.server.state.loaded_model import LoadedModel
from legcf.server.state.model_manager import ModelManager

_WEB = Path(__file__).parents[1] / "web"
_FILES = (
    ("/", "index.html", "text/html"),
    ("/docs", "docs.html", "text/html"),
    ("/favicon.ico", "icon.svg", "image/svg+xml"),
)
_MOST_HISTORY = 500


class Search(BaseModel):
    q: str = Field("", max_length=512)
    limit: int = Field(12, ge=1, le=100)


class OfUser(BaseModel):
    user: str


def page_routes(
    holder: ModelManager, lane: SlowQueue, helper: Helper, latest: LiveState, document: bytes
) -> list[BaseRoute]:
    files = [Route(path, _fixed((_WEB / name).read_bytes(), kind)) for path, name, kind in _FILES]
    return [
        *files,
        Route("/openapi.json", _fixed(document, "application/json")),
        Mount("/static", StaticFiles(directory=_WEB)),
        *_questions(holder, lane, latest),
        Route("/api/map", _map(holder, lane, helper)),
    ]


def _fixed(content: bytes, kind: str) -> Endpoint:
    async def send(request: HttpRequest) -> Response:
        return Response(content, media_type=kind)

    return send


def _questions(holder: ModelManager, lane: SlowQueue, latest: LiveState) -> list[BaseRoute]:
    """Each worked out in the slow lane: looking through all titles takes a while where there are many."""

    def question(path: str, answer: Callable[[LoadedModel, HttpRequest], Any]) -> Route:
        async def endpoint(request: HttpRequest) -> Response:
            content = await lane.run(lambda: encode(answer(holder.current, request)))
            return Response(content, media_type="application/json")

        return Route(path, endpoint)

    return [
        question("/api/model", lambda current, _: _card(current, latest)),
        question("/api/items", _items),
        question("/api/users", _users),
        question("/api/history", lambda current, request: _history(current, request, latest)),
    ]


def _map(holder: ModelManager, lane: SlowQueue, helper: Helper) -> Endpoint:
    drawn: dict[str, bytes] = {}  # of the model in use: it takes a second or two

    async def send(request: HttpRequest) -> Response:
        current = holder.current
        if current.tag not in drawn:
            content, _ = await lane.run(partial(helper.perform, current, map_job()))
            drawn.clear()
            drawn[current.tag] = content
        return Response(drawn[current.tag], media_type="application/json")

    return send


def _items(current: LoadedModel, request: HttpRequest) -> dict[str, Any]:
    """Items found by a text, or those with the ids given, as many as the model has."""
    wanted = request.query_params.getlist("id")
    if wanted:
        places = [current.scorer.model.items.find(identifier) for identifier in wanted]
        return {"items": _entries(current, [place for place in places if place is not None])}
    query = read_query(request, Search)
    return {"items": search_items(current, query.q, query.limit)}


def _users(current: LoadedModel, request: HttpRequest) -> dict[str, Any]:
    query = read_query(request, Search)
    return {"users": search_users(current, query.q, query.limit)}


def _history(current: LoadedModel, request: HttpRequest, latest: LiveState) -> dict[str, Any]:
    user, model = read_query(request, OfUser).user, current.scorer.model
    position = None if model.users is None else model.users.find(user)
    news = latest.news(current, user)
    if position is None and not news.version:
        raise UnknownId("user", user)
    seen = news.items if position is None else np.union1d(current.scorer.history(position), news.items)
    order = seen[(-model.popularity[seen].astype(int)).argsort(kind="stable")][:_MOST_HISTORY]
    return {
        "stored": model.history is not None or news.version > 0,
        "count": len(seen),
        "items": _entries(current, order),
    }


def search_items(current: LoadedModel, text: str, limit: int) -> list[dict[str, Any]]:
    """Items whose title holds the text, or whose id is the text; the best known first."""
    names, wanted = current.folded_names, text.casefold().strip()
    exact = current.scorer.model.items.find(text) if text else None
    found = [] if exact is None else [exact]
    for item in current.by_popularity:
        if len(found) >= limit:
            break
        if wanted in names[item] and item != exact:
            found.append(item)
    return _entries(current, found)


def search_users(current: LoadedModel, text: str, limit: int) -> list[int | str]:
    """The user with this id, users whose id begins with the text, then those that hold it."""
    users = current.scorer.model.users
    if users is None:
        return []
    exact = users.find(text) if text else None
    starts: list[int] = [] if exact is None else [exact]
    inside: list[int] = []
    for position, name in enumerate(current.user_names):
        if len(starts) >= limit:
            break
        if position == exact:
            continue
        if name.startswith(text):
            starts.append(position)
        elif text in name and len(inside) < limit:
            inside.append(position)
    return users.external((starts + inside)[:limit])


def _entries(current: LoadedModel, positions: Any) -> list[dict[str, Any]]:
    model = current.scorer.model
    counts = at_least_one(model.popularity)
    return [
        {
            "id": model.items.external([item])[0],
            "title": model.item_name(int(item)),
            "users": round(float(counts[item])),
        }
        for item in positions
    ]


def _card(current: LoadedModel, latest: LiveState) -> dict[str, Any]:
    model = current.scorer.model
    rows = model.item_rows
    return {
        "model": current.tag,
        "card": model.card,
        "bytes": current.bytes,
        "items": len(model.items),
        "users": 0 if model.users is None else len(model.users),
        "titles": model.titles is not None,
        "users_stored": model.user_rows is not None,
        "accepts_events": latest.accepts_events,
        "history_stored": model.history is not None,
        "hues": hues(model),
        "attributes": [] if model.attributes is None else model.attributes.described(),
        "dtype": model.dtype,
        "coded": isinstance(rows, CodebookTable),
        "width": rows.width,
        "codebook": len(rows.codebook) if isinstance(rows, CodebookTable) else None,
        "terms": rows.columns.shape[1] if isinstance(rows, CodebookTable) else None,
    }
