"""Starting and stopping the server process."""

import logging
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from legcf.errors import MissingExtra, UserError
from legcf.serving.artifact import ServingModel
from legcf.serving.telemetry import log

_GRACE_SECONDS = 20  # for requests under way when the server is told to stop


def run_server(
    model: Path,
    host: str,
    port: int,
    workers: int,
    api_key: str | None,
    max_body: int,
    reload_seconds: float,
    access_log: bool,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is under way and return."""
    try:
        import uvicorn

        from legcf.serving.server import Settings, create_app
    except ImportError as error:
        raise MissingExtra("The server", "serve") from error
    if api_key is not None and not (api_key and api_key.isascii()):
        raise UserError("The API key must be a non-empty ASCII text.")
    listener = _listen(host, port)
    counts = tempfile.mkdtemp(prefix="legcf-serve-")
    settings = Settings(str(model.absolute()), api_key, max_body, reload_seconds, access_log, counts)
    _log_as_json()
    signal.signal(signal.SIGTERM, _leave)  # uvicorn finishes its requests, then hands the signal on to this
    address = listener.getsockname()
    try:
        if workers == 1:
            app = create_app(settings)
            log("listening", host=address[0], port=address[1], workers=1)
            uvicorn.Server(uvicorn.Config(app, **_options())).run(sockets=[listener])
        else:
            ServingModel.load(model)  # a bad file is told once, here, not by every worker
            settings.to_environment()
            log("listening", host=address[0], port=address[1], workers=workers)
            factory = "legcf.serving.server:app_from_environment"
            uvicorn.run(factory, factory=True, workers=workers, fd=listener.fileno(), **_options())
    finally:
        listener.close()
        shutil.rmtree(counts, ignore_errors=True)


def _options() -> dict[str, Any]:
    return {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": _GRACE_SECONDS,
        "backlog": 1024,
    }


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise UserError(f"Cannot listen on {host}:{port}: {error.strerror or error}; choose another --port.") from error
    listener.set_inheritable(True)
    return listener


class _JsonHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log("server", record.levelname.lower(), message=record.getMessage())


def _log_as_json() -> None:
    logger = logging.getLogger("uvicorn")
    logger.handlers = [_JsonHandler()]
    logger.propagate = False
    logger.setLevel(logging.WARNING)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
