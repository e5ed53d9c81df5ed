# SPDX-License-Identifier: Apache-2.0
"""`legcf serve`: an exported model over HTTP."""

import os
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option


def serve(
    model: Annotated[
        Path,
        Argument(metavar="MODEL", help="A file of `legcf export`; when it is replaced, the server loads the new one."),
    ],
    host: Annotated[str, Option(help="Address to listen on; 0.0.0.0 opens it to the network.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    workers: Annotated[int, Option(min=1, max=64, help="Processes that answer.")] = 1,
    api_key: Annotated[
        str | None, Option(envvar="LEGCF_API_KEY", help="Key that requests must carry (X-API-Key or bearer token).")
    ] = None,
    unknown: Annotated[
        Literal["error", "popular"],
        Option(help="What a user gets whom the model does not know: an error, or popular items."),
    ] = "error",
    cors_origin: Annotated[
        list[str] | None,
        Option(help="Origin of web pages that may call from a browser, such as https://shop.example; may be repeated."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        Option(
            help="Name that requests may be sent to, such as shop.example; may be repeated.  [default: localhost and"
            " 127.0.0.1 if --host is one of them, else any name]"
        ),
    ] = None,
    cache_mb: Annotated[int, Option(min=0, help="Memory of each worker for a cache of answers, in MB.")] = 32,
    max_body: Annotated[int, Option(min=1024, help="Largest body of a request, in bytes.")] = 2**20,
    reload_seconds: Annotated[float, Option(min=0.1, help="How often to look for a replaced file.")] = 1.0,
    accept_events: Annotated[
        Path | None,
        Option(help="Take events (POST /interactions) and availability (PUT /items/ID), kept in this folder."),
    ] = None,
    access_log: Annotated[bool, Option(help="A log line for every request.")] = True,
    log_ids: Annotated[bool, Option(help="Log the paths of requests, which contain user ids.")] = False,
) -> None:
    """Serve MODEL: recommendations, similar items, a page at / and API docs at /docs. Logs are JSON lines on stderr."""
    # Requests are many and their matrices small: threads inside numpy would only get in each other's way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from legcf.server.main import run_server
    from legcf.server.settings import Settings

    settings = Settings(
        str(model.absolute()),
        api_key,
        max_body,
        reload_seconds,
        access_log,
        log_ids,
        tuple(cors_origin or ()),
        tuple(allow_host or ()),
        unknown == "popular",
        cache_bytes=cache_mb * 2**20,
        events=None if accept_events is None else str(accept_events.absolute()),
    )
    run_server(settings, host, port, workers)
