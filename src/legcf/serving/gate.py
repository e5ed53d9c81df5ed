"""What every request passes on its way in and out: size, key, errors, timing, one log line."""

import hmac
import json
import time
import traceback
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from legcf.serving.telemetry import Telemetry, log

if TYPE_CHECKING:
    from legcf.serving.server import Settings

_OPEN = ("/", "/health", "/docs", "/openapi.json", "/favicon.ico")  # nothing of the model is told there
_PREFIXES = (
    ("/recommend/", "recommend"),
    ("/similar/", "similar"),
    ("/similar-users/", "similar_users"),
    ("/api/", "api"),
)
_EXACT = {"/recommend": "recommend_many", "/health": "health", "/metrics": "metrics"}
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
]


class Json(JSONResponse):
    """JSON in plain ASCII: whatever characters an id or a title holds, it can be sent."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


class Gate:
    def __init__(self, app: ASGIApp, settings: "Settings", telemetry: Telemetry) -> None:
        self._app, self._settings, self._telemetry = app, settings, telemetry
        self._key = None if settings.api_key is None else settings.api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            await send(message)

        try:
            await self._pass(scope, receive, watched)
        except Exception as error:
            log("failure", "error", path=scope["path"], error=repr(error), traceback=traceback.format_exc())
            if not status:
                await Json({"detail": "The server failed; its log says why."}, 500)(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - start
            self._telemetry.request(route_of(scope["path"]), status or 500, seconds)
            if self._settings.access_log:
                client = scope.get("client")
                log(
                    "request",
                    method=scope["method"],
                    path=scope["path"],
                    status=status,
                    ms=round(seconds * 1e3, 2),
                    client=client[0] if client else None,
                )

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if self._key is not None and not _is_open(scope["path"]) and not self._has_key(headers):
            problem = Json({"detail": "This server needs a key: send it as X-API-Key or as a bearer token."}, 401)
            problem.headers["WWW-Authenticate"] = "Bearer"
            await problem(scope, receive, send)
            return
        body = await self._body(headers, receive)
        if body is None:
            detail = f"The body is larger than the {self._settings.max_body:,} bytes taken here: send smaller batches."
            await Json({"detail": detail}, 413)(scope, receive, send)
            return
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    def _has_key(self, headers: dict[bytes, bytes]) -> bool:
        assert self._key is not None
        bearer = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        return any(hmac.compare_digest(given, self._key) for given in (headers.get(b"x-api-key", b""), bearer))

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """The whole body, or None as soon as it is known to be too large."""
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > self._settings.max_body:
            return None
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                break
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._settings.max_body:
                return None
            more = message.get("more_body", False)
        return b"".join(parts)


def route_of(path: str) -> str:
    """The name a path is counted under; few names, whatever people ask for."""
    if path in _EXACT:
        return _EXACT[path]
    for prefix, name in _PREFIXES:
        if path.startswith(prefix):
            return name
    return "page" if _is_open(path) else "other"


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith("/static/")
