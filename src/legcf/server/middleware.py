# SPDX-License-Identifier: Apache-2.0
"""What every request passes on its way in and out: size, key, request id, errors, timing, one log line."""

import hmac
import re
import secrets
import time
import traceback
from collections.abc import Iterable
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from legcf.server.encoding import encode
from legcf.server.logs import log
from legcf.server.settings import Settings
from legcf.server.telemetry import Telemetry

_OPEN = (
    "/",
    "/health",
    "/live",
    "/ready",
    "/docs",
    "/openapi.json",
    "/favicon.ico",
)  # nothing of the model is told there
_PREFIXES = (
    ("/recommend/", "recommend"),
    ("/similar/", "similar"),
    ("/similar-users/", "similar_users"),
    ("/items/", "items"),
    ("/api/", "api"),
)
_EXACT = {
    "/similar": "similar",
    "/similar-users": "similar_users",
    "/items": "items",
    "/interactions": "interactions",
    "/health": "health",
    "/live": "live",
    "/ready": "ready",
    "/metrics": "metrics",
}
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
]
_NO_KEY = "This server needs a key: send it as X-API-Key or as a bearer token."
_WRONG_KEY = "The key is wrong: send the right one as X-API-Key or as a bearer token."


class Json(JSONResponse):
    def render(self, content: Any) -> bytes:
        return encode(content)


class Gate:
    def __init__(self, app: ASGIApp, settings: Settings, telemetry: Telemetry) -> None:
        self._app, self._settings, self._telemetry = app, settings, telemetry
        self._key = None if settings.api_key is None else settings.api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 0
        headers = dict(scope["headers"])
        request_id = _request_id(headers)
        added = [*_HEADERS, (b"x-request-id", request_id)]

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        try:
            await self._pass(headers, scope, receive, watched)
        except Exception as error:
            facts = {**self._whereabouts(scope, request_id), "error": repr(error)}
            log("failure", "error", **facts, traceback=traceback.format_exc())
            if not status:
                detail = f"The server failed; its log says why, at request {request_id.decode()}."
                await Json({"detail": detail}, 500)(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - start
            self._telemetry.request(route_of(scope["path"], scope["method"]), status or 500, seconds)
            if self._settings.access_log:
                client = scope.get("client")
                log(
                    "request",
                    **self._whereabouts(scope, request_id),
                    status=status,
                    ms=round(seconds * 1e3, 2),
                    client=client[0] if client else None,
                )

    def _whereabouts(self, scope: Scope, request_id: bytes) -> dict[str, str]:
        """What a log line says of a request. A path may hold a user's id, which is nobody's business by default."""
        facts = {"method": scope["method"], "route": route_of(scope["path"], scope["method"])}
        if self._settings.log_ids:
            query = scope["query_string"].decode("latin-1")
            facts["path"] = f"{scope['path']}?{query}" if query else scope["path"]
        return {**facts, "request_id": request_id.decode()}

    async def _pass(self, headers: dict[bytes, bytes], scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None if self._key is None or _is_open(scope["path"]) else self._refusal(headers)
        if refusal is not None:
            await Json({"detail": refusal}, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        if scope["method"] not in ("POST", "PUT"):  # nothing else has a body that anybody reads
            await self._app(scope, receive, send)
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

    def _refusal(self, headers: dict[bytes, bytes]) -> str | None:
        """Why the request may not pass, None if it carries the key."""
        assert self._key is not None
        given = list(_keys(headers))
        if any([hmac.compare_digest(key, self._key) for key in given]):
            return None
        return _WRONG_KEY if given else _NO_KEY

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


def route_of(path: str, method: str = "GET") -> str:
    """The name a path is counted under; few names, whatever people ask for."""
    if path == "/recommend":
        return "recommend_many" if method == "POST" else "recommend"
    if path in _EXACT:
        return _EXACT[path]
    for prefix, name in _PREFIXES:
        if path.startswith(prefix):
            return name
    return "page" if _is_open(path) else "other"


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith("/static/")


def _request_id(headers: dict[bytes, bytes]) -> bytes:
    """The caller's own, if it is of a form that can safely be repeated, or a new one."""
    given = headers.get(b"x-request-id", b"")
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8).encode()


def _keys(headers: dict[bytes, bytes]) -> Iterable[bytes]:
    if b"x-api-key" in headers:
        yield headers[b"x-api-key"]
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and token.strip():
        yield token.strip()
