# SPDX-License-Identifier: Apache-2.0
"""Serve the page at `/` and the small questions it asks. Hand-written files in `web/`, nothing from outside."""

import os
from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from legcf.ranking.popularity import at_least_one
from legcf.server.answers import UnknownId
from legcf.server.background.jobs import CARD, MAP, Job
from legcf.server.encoding import encode
from legcf.server.routes.operations import Endpoint, Operation, read_query
from legcf.server.routes.services import Services
from legcf.server.state.live_state import LiveState
from legcf.server.state.loaded_model import LoadedModel

_WEB = Path(__file__).parents[1] / "web"
_FILES = (
    ("/", "index.html", "text/html"),
    ("/docs", "docs.html", "text/html"),
    ("/favicon.ico", "icon.svg", "image/svg+xml"),
)
_STATIC = StaticFiles(directory=_WEB)
_MAX_HISTORY = 500  # items of a history that the page lists


class Search(BaseModel):
    q: str = Field("", max_length=512)
    limit: int = Field(12, ge=1, le=100)


class OfUser(BaseModel):
    user: str


def page_operations(services: Services, document: bytes) -> list[Operation]:
    """Return the page's files and questions; `document` is the OpenAPI document."""
    page = partial(Operation, "GET", open=True, name="page")
    ask = partial(Operation, "GET", name="api")
    return [
        *(page(path, None, _fixed((_WEB / name).read_bytes(), kind)) for path, name, kind in _FILES),
        page("/openapi.json", None, _fixed(document, "application/json")),
        page("/static/{file:id}", None, _static),
        ask("/api/model", None, _by_helper(services, CARD)),
        ask("/api/map", None, _by_helper(services, MAP)),
        ask("/api/items", None, _searched(services, _items)),
        ask("/api/users", None, _searched(services, _users)),
        ask("/api/history", None, _searched(services, _history)),
    ]


def _fixed(content: bytes, kind: str) -> Endpoint:
    async def send(request: HttpRequest) -> Response:
        return Response(content, media_type=kind)

    return send


async def _static(request: HttpRequest) -> Response:
    return await _STATIC.get_response(os.path.normpath(request.path_params["file"]), request.scope)


def _by_helper(services: Services, job: Job) -> Endpoint:
    """Let the helper process work it out, once for a model: laying out the map takes a second or two."""
    contents: dict[str, bytes] = {}  # of the model in use, by its tag

    async def send(request: HttpRequest) -> Response:
        loaded = services.manager.current
        if loaded.tag not in contents:
            ((content, _),) = await services.slow_queue.run_all([partial(services.helper.perform, loaded, job)])
            contents.clear()
            contents[loaded.tag] = content
        return Response(contents[loaded.tag], media_type="application/json")

    return send


def _searched(services: Services, answer: Callable[[LoadedModel, LiveState, HttpRequest], Any]) -> Endpoint:
    """Work it out in the slow queue: looking through all titles takes a while where there are many."""

    async def send(request: HttpRequest) -> Response:
        content = await services.slow_queue.in_thread(
            lambda: encode(answer(services.manager.current, services.live, request))
        )
        return Response(content, media_type="application/json")

    return send


def _items(loaded: LoadedModel, live: LiveState, request: HttpRequest) -> dict[str, Any]:
    """Find the items with the ids asked for; or those whose title holds a text, or whose id it is, best known first."""
    ids, find = request.query_params.getlist("id"), loaded.scorer.model.items.find
    if ids:
        return {"items": _entries(loaded, [position for one in ids if (position := find(one)) is not None])}
    query = read_query(request, Search)
    names, folded = loaded.folded_names, query.q.casefold().strip()
    exact = find(query.q) if query.q else None
    others = (item for item in loaded.by_popularity if folded in names[item] and item != exact)
    return {"items": _entries(loaded, list(islice(chain([] if exact is None else [exact], others), query.limit)))}


def _users(loaded: LoadedModel, live: LiveState, request: HttpRequest) -> dict[str, Any]:
    """Find the user with this id, then users whose id begins with the text or holds it, but for deleted ones."""
    query, users = read_query(request, Search), loaded.scorer.model.users
    if users is None:
        return {"users": []}
    text, limit, deleted = query.q, query.limit, set(live.deleted_users(loaded).items.tolist())
    exact = users.find(text) if text else None
    exact = None if exact in deleted else exact
    starts: list[int] = [] if exact is None else [exact]
    inside: list[int] = []
    for position, name in enumerate(loaded.user_names):
        if len(starts) >= limit:
            break
        if position == exact or position in deleted:
            continue
        if name.startswith(text):
            starts.append(position)
        elif text in name and len(inside) < limit:
            inside.append(position)
    return {"users": users.external((starts + inside)[:limit])}


def _history(loaded: LoadedModel, live: LiveState, request: HttpRequest) -> dict[str, Any]:
    user, model = read_query(request, OfUser).user, loaded.scorer.model
    is_deleted = live.is_deleted(user)
    position = None if model.users is None or is_deleted else model.users.find(user)
    news = live.news(loaded, user, is_deleted=is_deleted)
    if position is None and not news.version:
        raise UnknownId("user", user)
    before = np.zeros(0, np.int32) if position is None else loaded.scorer.history(position)
    seen = np.union1d(np.setdiff1d(before, news.taken_back), news.items)
    order = seen[(-model.popularity[seen].astype(int)).argsort(kind="stable")][:_MAX_HISTORY]
    stored = model.history is not None or news.version > 0
    return {"stored": stored, "count": len(seen), "items": _entries(loaded, order)}


def _entries(loaded: LoadedModel, positions: Any) -> list[dict[str, Any]]:
    model = loaded.scorer.model
    counts = at_least_one(model.popularity)
    return [
        {"id": id, "title": model.item_name(int(item)), "users": round(float(counts[item]))}
        for item, id in zip(positions, model.items.external(positions), strict=True)
    ]
