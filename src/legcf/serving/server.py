"""The HTTP server: one model file, answers in the ids people use, errors as sentences."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from legcf import __version__
from legcf.errors import MissingExtra, UserError

try:
    from fastapi import Body, FastAPI, Query
    from fastapi import Path as InPath
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, PlainTextResponse, Response
    from starlette.requests import Request as HttpRequest
except ImportError as error:
    raise MissingExtra("The server", "serve") from error

from legcf.serving import schemas
from legcf.serving.explain import Explanation, explain
from legcf.serving.gate import Gate, Json
from legcf.serving.holder import Holder
from legcf.serving.pages import add_pages
from legcf.serving.scorer import Request, Scored, Scorer
from legcf.serving.telemetry import Telemetry, log

SETTINGS_VARIABLE = "LEGCF_SERVE_SETTINGS"
_DESCRIPTION = "Recommendations from one small file: no graph, no training set. Ids are those of the training data."


@dataclass(frozen=True)
class Settings:
    """How a server runs. `counts` is the folder where workers share their counters."""

    model: str
    api_key: str | None = None
    max_body: int = 2**20
    reload_seconds: float = 1.0
    access_log: bool = True
    counts: str | None = None

    def to_environment(self) -> None:
        os.environ[SETTINGS_VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> "Settings":
        return cls(**json.loads(os.environ[SETTINGS_VARIABLE]))


def app_from_environment() -> FastAPI:
    """What each worker process calls."""
    return create_app(Settings.from_environment())


def create_app(settings: Settings) -> FastAPI:
    telemetry = Telemetry(None if settings.counts is None else Path(settings.counts))
    holder = Holder(Path(settings.model), telemetry)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watcher = asyncio.create_task(holder.watch(settings.reload_seconds))
        log("ready", model=settings.model, bytes=holder.current.bytes)
        yield
        watcher.cancel()
        log("stopped")

    app = FastAPI(
        title="legcf",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        responses=_problems(401, 422) if settings.api_key else _problems(422),
    )
    app.add_middleware(Gate, settings=settings, telemetry=telemetry)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(UserError, _refused)
    _add_recommend(app, holder)
    _add_similar(app, holder)
    _add_state(app, holder, telemetry)
    add_pages(app, holder)
    return app


def _add_recommend(app: FastAPI, holder: Holder) -> None:
    @app.get("/recommend/{user:path}", response_model=schemas.Recommendations, responses=_problems(404))
    async def recommend(
        user: Annotated[str, InPath(description="A user's id.")],
        k: Annotated[int, Query(ge=1, le=schemas.MAX_K)] = 20,
        exclude_seen: bool = True,
        explain: Annotated[
            int, Query(ge=0, le=schemas.MAX_EXPLAINED, description="Say why for so many of the first items.")
        ] = 0,
    ) -> Response:
        """The best k items for a known user."""
        scorer = holder.current.scorer
        users = scorer.model.users
        if users is None or users.find(user) is None:
            return _unknown("user", user, users is None)
        return Json(_answer(scorer, Request(user, (), k, exclude_seen), explain))

    @app.post("/recommend", response_model=schemas.ManyRecommendations, responses=_problems(400, 404, 409, 413))
    async def recommend_many(body: Annotated[schemas.AskMany, Body()]) -> Response:
        """Many at once: known users, people known only by their items, and filters."""
        scorer = holder.current.scorer
        # in a thread: a batch takes a while, and others should not wait for it
        return Json({"results": await asyncio.to_thread(lambda: [_answer_ask(scorer, ask) for ask in body.requests])})


def _add_similar(app: FastAPI, holder: Holder) -> None:
    @app.get("/similar/{item:path}", response_model=schemas.Similar, responses=_problems(404))
    async def similar(
        item: Annotated[str, InPath(description="An item's id.")], k: Annotated[int, Query(ge=1, le=schemas.MAX_K)] = 10
    ) -> Response:
        """Items like this one: cosine of their vectors, less for items of few users."""
        scorer = holder.current.scorer
        position = scorer.model.items.find(item)
        if position is None:
            return _unknown("item", item, False)
        found = scorer.similar_items(item, k)
        return Json({"to": scorer.model.items.external([position])[0], "items": [_item(entry) for entry in found]})

    @app.get("/similar-users/{user:path}", response_model=schemas.Similar, responses=_problems(404, 409))
    async def similar_users(
        user: Annotated[str, InPath(description="A user's id.")], k: Annotated[int, Query(ge=1, le=schemas.MAX_K)] = 10
    ) -> Response:
        """Users with a taste like this one's (cosine of their vectors)."""
        scorer = holder.current.scorer
        users = scorer.model.users
        position = None if users is None else users.find(user)
        if users is None or position is None:
            return _unknown("user", user, users is None)
        found = scorer.similar_users(user, k)
        return Json({"to": users.external([position])[0], "items": [_item(entry) for entry in found]})


def _add_state(app: FastAPI, holder: Holder, telemetry: Telemetry) -> None:
    @app.get("/health", response_model=schemas.Health)
    async def health() -> Response:
        """Whether it serves, and what."""
        current = holder.current
        model = current.scorer.model
        users = 0 if model.users is None else len(model.users)
        name = str(model.card.get("name") or holder.path.name)
        return Json({"status": "ok", "model": name, "users": users, "items": len(model.items), "loaded_at": current.at})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Counters and times in Prometheus' text format, over all workers."""
        current = holder.current
        gauges = {"model_bytes": float(current.bytes), "model_loaded_timestamp_seconds": current.at}
        return PlainTextResponse(telemetry.text(gauges), media_type="text/plain; version=0.0.4; charset=utf-8")


class UnknownId(UserError):
    """Asked for what the model does not know."""


def _answer_ask(scorer: Scorer, ask: schemas.Ask) -> dict[str, Any]:
    model = scorer.model
    if ask.user is not None and model.users is not None and model.users.find(ask.user) is None:
        raise UnknownId(f"There is no user {str(ask.user)[:100]!r} in this model.")
    for item in (*ask.items, *(ask.allow or ()), *ask.deny):
        if model.items.find(item) is None:
            raise UnknownId(f"There is no item {str(item)[:100]!r} in this model.")
    request = Request(ask.user, ask.items, ask.k, ask.exclude_seen, ask.allow, ask.deny)
    return _answer(scorer, request, ask.explain)


def _answer(scorer: Scorer, request: Request, explained: int) -> dict[str, Any]:
    taste = scorer.taste(request)
    found = scorer.recommend_taste(taste, request)
    first = scorer.model.items.positions([entry.id for entry in found[:explained]]).tolist()
    why = [_why(part) for part in explain(scorer, taste, first)]
    user = request.user
    if user is not None and scorer.model.users is not None:  # as it was in the training data, not as it was typed
        user = scorer.model.users.external([scorer.model.users.position(user)])[0]
    return {"user": user, "items": [_item(entry) for entry in found], "why": why}


def _item(entry: Scored) -> dict[str, Any]:
    return {"id": entry.id, "title": entry.name, "score": entry.score}


def _why(part: Explanation) -> dict[str, Any]:
    shared = [
        {"meta": entry.meta, "contribution": entry.contribution, "examples": [_item(item) for item in entry.examples]}
        for entry in part.shared
    ]
    because = [_item(item) for item in part.because]
    score, neighbours = part.score, part.neighbours
    return {"item": part.item, "score": score, "neighbours": neighbours, "shared": shared, "because": because}


def _unknown(kind: str, identifier: str, stores_none: bool) -> JSONResponse:
    detail = f"There is no {kind} {identifier[:100]!r} in this model."
    if stores_none:
        detail = "This model stores no users: POST the user's items to /recommend instead."
    return Json({"detail": detail}, status_code=404)


async def _invalid(request: HttpRequest, error: Exception) -> Response:
    """Pydantic's list of complaints as one sentence."""
    assert isinstance(error, RequestValidationError)
    complaints = [
        f"{'.'.join(str(part) for part in complaint['loc'])[:200]}: {complaint['msg']}"
        for complaint in error.errors()[:3]
    ]
    return Json({"detail": "; ".join(complaints) + "."}, status_code=422)


async def _refused(request: HttpRequest, error: Exception) -> Response:
    """What this model does not know is not found; what it cannot do as it was exported is a conflict."""
    return Json({"detail": str(error)}, status_code=404 if isinstance(error, UnknownId) else 409)


def _problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": schemas.Problem} for code in codes}
