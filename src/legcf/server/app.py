# SPDX-License-Identifier: Apache-2.0
"""Make the HTTP server: one model file, answers in the ids people use, errors as sentences."""

import asyncio
import gc
import multiprocessing
import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from legcf.core.errors import UserError
from legcf.server import answers
from legcf.server.background.event_journal import NotWritten
from legcf.server.background.queue import Busy, ClientDisconnected
from legcf.server.encoding import Json, encode
from legcf.server.logs import log
from legcf.server.middleware import Gate, Shortcut
from legcf.server.routes.administration import AdministrationApi
from legcf.server.routes.ingest import IngestApi
from legcf.server.routes.openapi import document
from legcf.server.routes.operations import RouteTable, routes
from legcf.server.routes.pages import page_operations
from legcf.server.routes.query import QueryApi
from legcf.server.routes.services import Services
from legcf.server.schemas import Invalid
from legcf.server.settings import Settings

_ANSWERED_ERRORS = (UserError, Invalid, Busy, ClientDisconnected, NotWritten, sqlite3.Error, HTTPException)


def app_from_environment() -> Starlette:
    """Make the server of a worker process."""
    settings = Settings.from_environment()
    _end_with_parent(settings.counts)
    return app_of_process(settings)


def app_of_process(settings: Settings) -> Starlette:
    """Make the server of a process that does nothing else: what is loaded by now stays, and the garbage collector need
    not look through it again, 20 ms each time in which nobody is answered."""
    app = create_app(settings)
    gc.collect()
    gc.freeze()
    return app


def _end_with_parent(counts: str | None) -> None:
    """Stop this worker, and remove the shared counters, once the process that started it is gone, even by SIGKILL."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        assert parent is not None
        parent.join()
        if counts is not None:
            shutil.rmtree(counts, ignore_errors=True)
        os.kill(os.getpid(), signal.SIGTERM)

    if parent is not None:
        threading.Thread(target=wait, daemon=True).start()


def create_app(settings: Settings) -> Starlette:
    services = Services.start(settings)
    query = QueryApi(services)
    ingest = IngestApi(services).operations()
    administration = AdministrationApi(services)
    lists, deletions = administration.operations(), administration.deletions()
    operations = [*query.operations(), *([] if services.journal is None else ingest)]
    if settings.api_key is not None:
        operations += [*lists, *([] if services.journal is None else deletions)]
    pages = page_operations(services, encode(document(operations, settings.api_key is not None)))
    table = RouteTable([*query.operations(), *ingest, *lists, *deletions, *pages])

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        manager = services.manager
        watcher = asyncio.create_task(manager.watch(settings.reload_seconds))
        log("ready", path=settings.model, bytes=manager.current.file_bytes, model=manager.current.tag)
        yield
        watcher.cancel()
        await services.stop()
        log("stopped")

    cors = Middleware(
        CORSMiddleware,
        allow_origins=settings.cors_origins,
        allow_methods=["GET", "POST", "PUT", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "X-API-Key", "X-Request-ID"],
        expose_headers=["X-Request-ID"],
    )
    app = Starlette(
        routes=routes([*operations, *pages]),
        middleware=[
            *([cors] if settings.cors_origins else []),  # before the gate: browsers ask, without a key, if they may ask
            Middleware(Gate, settings=settings, telemetry=services.telemetry, table=table),
            Middleware(Shortcut, answer=query.recommend_at_once),
        ],
        lifespan=lifespan,
        exception_handlers=dict.fromkeys(_ANSWERED_ERRORS, _answer_error),
    )
    app.router.redirect_slashes = False
    return app


async def _answer_error(request: HttpRequest, error: Exception) -> Response:
    headers: Mapping[str, str] | None = None
    match error:
        case UserError():
            status, detail = answers.failure(error)
        case Invalid():
            status, detail = 422, str(error)
        case Busy():
            status, headers = 503, {"Retry-After": "1"}
            detail = "Too many long requests are waiting already: try again in a moment, or start more --workers."
        case NotWritten():
            status, headers = 503, {"Retry-After": "10"}
            detail = (
                "The disk refused what you sent, and nothing of it was kept: the log says why. Send it again later."
            )
        case sqlite3.Error():
            log("events_not_read", "error", reason=repr(error))
            status, headers = 503, {"Retry-After": "10"}
            detail = "The events of users cannot be read from the disk now: the log says why. Try again later."
        case HTTPException():  # what Starlette refuses by itself: paths and methods that are not there
            status, detail, headers = error.status_code, f"{error.detail}.", error.headers
        case _:
            return Response(status_code=499)  # for the log: the client has gone, and nobody is there to read it
    return Json({"detail": detail}, status, headers)
