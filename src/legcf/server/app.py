# SPDX-License-Identifier: Apache-2.0
"""The HTTP server: one model file, answers in the ids people use, errors as sentences."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from legcf.core.errors import UserError
from legcf.server import answers
from legcf.server.background.event_journal import Journal, NotWritten
from legcf.server.background.process import Helper
from legcf.server.background.queue import Busy, ClientDisconnected, SlowQueue
from legcf.server.encoding import encode
from legcf.server.fast_path import Shortcut
from legcf.server.logs import log
from legcf.server.middleware import Gate, Json
from legcf.server.routes.ingest import IngestApi
from legcf.server.routes.openapi import document
from legcf.server.routes.operations import Invalid, routes
from legcf.server.routes.pages import page_routes
from legcf.server.routes.query import Api
from legcf.server.settings import Settings
from legcf.server.state.live_state import LiveState
from legcf.server.state.model_manager import ModelManager
from legcf.server.telemetry import Telemetry


def app_from_environment() -> Starlette:
    """What each worker process calls."""
    return create_app(Settings.from_environment())


def create_app(settings: Settings) -> Starlette:
    telemetry = Telemetry(settings.counts)
    holder = ModelManager(Path(settings.model), telemetry, settings.cache_bytes, settings.events)
    latest = LiveState.of(settings.events)
    journal = None if settings.events is None else Journal(settings.events)
    lane, helper = SlowQueue(), Helper(holder.path, latest, settings.events)
    api = Api(settings, holder, telemetry, lane, helper, latest)
    operations = [
        *api.operations(),
        *([] if journal is None else IngestApi(holder, journal).operations()),
    ]
    described = encode(document(operations, settings.api_key is not None))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        watcher = asyncio.create_task(holder.watch(settings.reload_seconds))
        log("ready", path=settings.model, bytes=holder.current.bytes, model=holder.current.tag)
        yield
        watcher.cancel()
        lane.close()
        helper.close()
        if journal is not None:
            await journal.close()
        latest.close()
        holder.close()
        log("stopped")

    app = Starlette(
        routes=[*routes(operations), *page_routes(holder, lane, helper, latest, described)],
        middleware=[*_middleware(settings, telemetry), Middleware(Shortcut, answer=api.recommend_at_once)],
        lifespan=lifespan,
        exception_handlers={
            UserError: _refused,
            Invalid: _invalid,
            Busy: _busy,
            ClientDisconnected: _abandoned,
            NotWritten: _not_written,
            HTTPException: _other,
        },
    )
    app.router.redirect_slashes = False
    return app


def _middleware(settings: Settings, telemetry: Telemetry) -> list[Middleware]:
    gate = Middleware(Gate, settings=settings, telemetry=telemetry)
    if not settings.cors_origins:
        return [gate]
    cors = Middleware(
        CORSMiddleware,
        allow_origins=settings.cors_origins,
        allow_methods=["GET", "POST", "PUT", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "X-API-Key", "X-Request-ID"],
        expose_headers=["X-Request-ID"],
    )
    return [cors, gate]  # before the gate: a browser asks whether it may ask, and has no key for that


async def _refused(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, UserError)
    status, detail = answers.failure(error)
    return Json({"detail": detail}, status)


async def _invalid(request: HttpRequest, error: Exception) -> Response:
    return Json({"detail": str(error)}, 422)


async def _busy(request: HttpRequest, error: Exception) -> Response:
    detail = "Too many long requests are waiting already: try again in a moment, or start more --workers."
    return Json({"detail": detail}, 503, {"Retry-After": "1"})


async def _not_written(request: HttpRequest, error: Exception) -> Response:
    detail = "The disk refused what you sent, and nothing of it was kept: the log says why. Send it again later."
    return Json({"detail": detail}, 503, {"Retry-After": "10"})


async def _abandoned(request: HttpRequest, error: Exception) -> Response:
    return Response(status_code=499)  # for the log: nobody is there to read it


async def _other(request: HttpRequest, error: Exception) -> Response:
    """What Starlette refuses by itself: paths and methods that are not there."""
    assert isinstance(error, HTTPException)
    return Json({"detail": f"{error.detail}."}, error.status_code, error.headers)
