# SPDX-License-Identifier: Apache-2.0
"""Answer questions to the model: at once in the event loop, or in the slow queue where it takes long."""

import sqlite3
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, Literal
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from legcf.core.errors import UserError
from legcf.server import answers, schemas
from legcf.server.background.jobs import LIGHT, perform, recommend_jobs, split_job, weight
from legcf.server.encoding import Json, encode
from legcf.server.paging import Cursor
from legcf.server.routes.operations import Operation, read_body, read_query
from legcf.server.routes.services import Services
from legcf.server.state.live_state import LiveItems
from legcf.server.state.loaded_model import LoadedModel

_LONG_BODY = 2**15  # bytes, which are read and checked in about 0.3 ms; measured with lists of numbers
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class QueryApi:
    def __init__(self, services: Services) -> None:
        self._services = services

    def operations(self) -> list[Operation]:
        """Take every id in the path or in the query: in a path some clients and proxies tamper with `..` or `//`."""
        get, post = partial(Operation, "GET"), partial(Operation, "POST")
        user = partial(
            get, answer=schemas.Recommendations, query=schemas.UserQuery, problems=(404, 409, 503), name="recommend"
        )
        item = partial(get, answer=schemas.Similar, query=schemas.ItemNeighboursQuery, problems=(404,), name="similar")
        users = partial(
            get, answer=schemas.Similar, query=schemas.UserNeighboursQuery, problems=(404, 409), name="similar_users"
        )
        many = partial(
            post, answer=schemas.ManyRecommendations, body=schemas.AskMany, problems=(503,), name="recommend_many"
        )
        state = partial(get, open=True)
        best, like = "The best k items for a known user", "Items like this one: cosine, less for items of few users"
        taste, query = "Users with a taste like this one's: cosine of their vectors", "with the id in the query."
        metrics = "Prometheus' text format, over all workers."
        return [
            user("/recommend/{user:id}", f"{best}.", self.recommend),
            user("/recommend", f"{best}, {query}", self.recommend),
            many("/recommend", "Up to 100 at once, with filters.", self.recommend_many),
            item("/similar/{item:id}", f"{like}.", self.similar),
            item("/similar", f"{like}, {query}", self.similar),
            users("/similar-users/{user:id}", f"{taste}.", self.similar_users),
            users("/similar-users", f"{taste}, {query}", self.similar_users),
            state("/live", "Whether the process answers.", self.live, answer=schemas.Live, name="live"),
            state("/ready", "Whether it serves what is on disk.", self.ready, answer=schemas.Ready, name="ready"),
            state("/health", "Whether it serves, and what.", self.health, answer=schemas.Health, name="health"),
            get("/metrics", metrics, self.metrics, name="metrics"),
        ]

    def recommend_at_once(self, user: str, query_string: bytes) -> bytes | None:
        """Return the answer for a known user; None if it takes long work, or if anything is wrong."""
        fields = dict(parse_qsl(query_string.decode("latin-1"), keep_blank_values=True))
        try:
            return self._light(schemas.UserQuery.model_validate({**fields, "user": user}))
        except (ValidationError, UserError, sqlite3.Error):
            return None

    async def recommend(self, request: HttpRequest) -> Response:
        query = read_query(request, schemas.UserQuery)
        content = self._light(query)
        return await self._long(query) if content is None else _json(content)

    def _light(self, query: schemas.UserQuery) -> bytes | None:
        services = self._services
        ask, loaded = self._asked(query)
        if self._is_long([ask], loaded):
            return None
        situation = services.live.situation(loaded, ask)
        return _cached(
            loaded,
            (query.model_dump_json(), situation.version),
            lambda: answers.recommend(loaded, ask, services.settings.popular_for_unknown, situation),
        )

    def _is_long(self, asks: Sequence[schemas.Ask], loaded: LoadedModel) -> bool:
        """Return whether asks take so long together that they go to the slow queue, events to be read included."""
        live, left = self._services.live, LIGHT - sum(weight(ask, loaded.num_items) for ask in asks)
        for ask in asks if left >= 0 else ():
            left -= live.num_news(loaded, ask, left + 1)
            if left < 0:
                break
        return left < 0

    def _asked(self, query: schemas.UserQuery) -> tuple[schemas.Ask, LoadedModel]:
        """Return what is asked, and of which model: the one that began the list, while it is there."""
        ask = schemas.Ask.model_construct(**vars(query))
        tag = None if ask.cursor is None else Cursor.decode(ask.cursor).model
        return ask, self._services.manager.recent(tag)

    async def _long(self, query: schemas.UserQuery) -> Response:
        ask, loaded = self._asked(query)
        live, queue = self._services.live, self._services.slow_queue
        situation = partial(live.situation, loaded, ask)
        has_many = live.num_news(loaded, ask, LIGHT + 1) > LIGHT  # entries: reading them would hold others up
        key = query.model_dump_json(), (await queue.in_thread(situation) if has_many else situation()).version
        content = loaded.response_cache.get(key)
        if content is None:
            content, error = (await self._in_slow_queue(loaded, [ask]))[0]
            if error != b"null":
                failed = schemas.Failed.model_validate_json(error)
                return Json({"detail": failed.detail}, failed.status)
            loaded.response_cache.keep(key, content)
        return _json(content)

    async def recommend_many(self, request: HttpRequest) -> Response:
        services = self._services
        loaded = services.manager.current
        if len(await request.body()) > _LONG_BODY:
            return ChunkedJson(list(_joined(loaded, await self._from_long_body(loaded, request))))
        asks = (await read_body(request, schemas.AskMany)).requests
        if not self._is_long(asks, loaded):
            jobs = recommend_jobs(asks, services.settings.popular_for_unknown, loaded.num_items)
            done = [perform(loaded, job, services.live) for job in jobs]
        else:
            done = await self._in_slow_queue(loaded, asks, request.is_disconnected)
        return ChunkedJson(list(_joined(loaded, done)))

    async def _from_long_body(self, loaded: LoadedModel, request: HttpRequest) -> list[tuple[bytes, bytes]]:
        """Let the helper process read the body, too, and hand its asks on without looking at them."""
        services = self._services
        job = split_job(await request.body(), services.settings.popular_for_unknown)
        ((jobs, complaint),) = await services.slow_queue.run_all([partial(services.helper.perform, loaded, job)])
        if complaint:
            raise schemas.Invalid(complaint.decode())
        pieces = (partial(services.helper.perform, loaded, one) for one in jobs.split(b"\n"))
        return await services.slow_queue.run_all(pieces, request.is_disconnected)

    async def _in_slow_queue(
        self,
        loaded: LoadedModel,
        asks: Sequence[schemas.Ask],
        is_disconnected: Callable[[], Awaitable[bool]] | None = None,
    ) -> list[tuple[bytes, bytes]]:
        services = self._services
        jobs = recommend_jobs(asks, services.settings.popular_for_unknown, loaded.num_items)
        pieces = (partial(services.helper.perform, loaded, job) for job in jobs)
        return await services.slow_queue.run_all(pieces, is_disconnected)

    async def similar(self, request: HttpRequest) -> Response:
        query = read_query(request, schemas.ItemNeighboursQuery)
        loaded = self._services.manager.current
        return _similar(loaded, "item", query.item, query.k, self._services.live.hidden(loaded))

    async def similar_users(self, request: HttpRequest) -> Response:
        query = read_query(request, schemas.UserNeighboursQuery)
        loaded = self._services.manager.current
        return _similar(loaded, "user", query.user, query.k, self._services.live.deleted_users(loaded))

    async def live(self, request: HttpRequest) -> Response:
        return Json({"status": "alive"})

    async def ready(self, request: HttpRequest) -> Response:
        return Json(self._state())

    async def health(self, request: HttpRequest) -> Response:
        manager = self._services.manager
        model = manager.current.scorer.model
        users = 0 if model.users is None else len(model.users)
        name = str(model.card.get("name") or manager.path.name)
        facts = {"name": name, "users": users, "items": len(model.items), "loaded_at": manager.current.loaded_at}
        return Json({**self._state(), **facts})

    async def metrics(self, request: HttpRequest) -> Response:
        return Response(self._services.telemetry.text(), headers={"content-type": _METRICS_TYPE})

    def _state(self) -> dict[str, str | None]:
        manager = self._services.manager
        status = "ready" if manager.warning is None else "warning"
        return {"model": manager.current.tag, "status": status, "warning": manager.warning}


def _cached(loaded: LoadedModel, key: Hashable, work: Callable[[], Any]) -> bytes:
    """Return what was answered before, or what `work` gives."""
    content = loaded.response_cache.get(key)
    if content is None:
        content = encode(work())
        loaded.response_cache.keep(key, content)
    return content


def _similar(loaded: LoadedModel, kind: Literal["item", "user"], to: str, k: int, hidden: LiveItems) -> Response:
    key = kind, to, k, hidden.version
    return _json(_cached(loaded, key, lambda: answers.similar(loaded, kind, to, k, hidden)))


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


class ChunkedJson(Response):
    """Send JSON in the parts it is made of: megabytes at once would hold everybody else up."""

    media_type = "application/json"

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._parts = parts
        super().__init__(headers={"content-length": str(sum(map(len, parts)))})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _joined(loaded: LoadedModel, done: Sequence[tuple[bytes, bytes]]) -> Iterator[bytes]:
    opening = b'{"model":' + encode(loaded.tag) + b',"results":['
    for result, _ in done:
        yield opening + result
        opening = b","
    yield b'],"errors":[' + b",".join(error for _, error in done) + b"]}"
