# SPDX-License-Identifier: Apache-2.0
"""Start and stop the server process."""

import errno
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from legcf.core.errors import UserError
from legcf.core.files import folder_held
from legcf.modelfile.served_model import ServedModel
from legcf.server.logs import log, log_uvicorn
from legcf.server.settings import Settings, is_loopback
from legcf.server.state.event_log import EventLog

_COUNTS_PREFIX = "legcf-serve-"
_ABANDONED_SECONDS = 60  # of age; an older folder of counters that nobody holds is of a server that was killed
_COUNTS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client reads it once, when it is imported


def run_server(settings: Settings, host: str, port: int, workers: int) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is under way and return."""
    _check(settings)
    if workers > 1:
        ServedModel.load(Path(settings.model))  # a bad file is reported once, here, not by every worker
    if settings.events is not None:
        EventLog(settings.events, create=True).close()  # once, before all workers open it
    listener = _listen(host, port)
    address = listener.getsockname()
    counts = _prepare_counts(workers)
    hosts = settings.hosts  # that requests may be sent to: any, if the network can reach it and none are set
    if hosts is not None and ("*" in hosts or not (hosts or is_loopback(address[0]))):
        hosts = None
    settings = replace(settings, counts=counts, hosts=hosts and tuple(name.lower() for name in hosts))

    import uvicorn

    # not before _COUNTS_VARIABLE is set: prometheus_client comes with them
    from legcf.server.app import app_of_process
    from legcf.server.workers import DrainingServer, Supervisor, server_options

    log_uvicorn()
    # uvicorn finishes its requests, then hands the signal on to this
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
    if workers > 1 and counts is None:
        log("counters_apart", "warning", reason=f"no folder is writable; {_COUNTS_VARIABLE} can name one")
    with ExitStack() as ending:
        ending.callback(listener.close)
        if counts is not None:
            ending.callback(shutil.rmtree, counts, ignore_errors=True)
            ending.enter_context(folder_held(Path(counts)))  # other servers see that it is in use
        if workers == 1:
            app = app_of_process(settings)
            log("listening", host=address[0], port=address[1], workers=1)
            DrainingServer(uvicorn.Config(app, **server_options())).run(sockets=[listener])
        else:
            settings.to_environment()
            log("listening", host=address[0], port=address[1], workers=workers)
            Supervisor(listener, workers).run()


def _check(settings: Settings) -> None:
    if settings.api_key is not None and not (settings.api_key and settings.api_key.isascii()):
        raise UserError("The API key must be a non-empty ASCII text.")
    for origin in settings.cors_origins:
        if origin != "*" and not re.fullmatch(r"https?://[^/\s]+", origin):
            raise UserError(
                f"--cors-origin {origin} is not of the form https://shop.example (no path, no slash at the end)."
            )
    for name in settings.hosts or ():
        if name != "*" and not re.fullmatch(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:]+", name):
            raise UserError(f"--allow-host {name} is not a name such as shop.example (no https://, no port).")


def _prepare_counts(workers: int) -> str | None:
    """Make a folder where workers share their counters; None for one worker, and where nothing can be written."""
    requested = os.environ.pop(_COUNTS_VARIABLE, None)
    if workers == 1:
        return None
    for parent in (requested, None, "/dev/shm"):
        with suppress(OSError):
            folder = os.environ[_COUNTS_VARIABLE] = tempfile.mkdtemp(prefix=_COUNTS_PREFIX, dir=parent)
            _remove_abandoned(Path(folder).parent)
            return folder
    return None


def _remove_abandoned(parent: Path) -> None:
    """Remove folders of counters that servers left which were killed with all their workers."""
    for folder in parent.glob(f"{_COUNTS_PREFIX}*"):
        with suppress(OSError, UserError):
            if time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS:
                with folder_held(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise UserError(
            f"--host {host} is neither an address nor a name that is known here: "
            "use 127.0.0.1 for this machine alone, or 0.0.0.0 for the network."
        ) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. Without it every answer's second part waits 40 ms for the client to confirm the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise UserError(f"Cannot listen on {host}:{port}: {_remedy(error, host)}") from error
    return listener


def _remedy(error: OSError, host: str) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; use --host 127.0.0.1, or --host 0.0.0.0 for the network."
    if error.errno == errno.EADDRINUSE:
        return "something else listens there; choose another --port, or --port 0 for a free one."
    if error.errno == errno.EACCES:
        return "ports below 1024 are for administrators; choose another --port, such as 8000."
    return f"{error.strerror or error}; choose another --host or --port."
