# SPDX-License-Identifier: Apache-2.0
"""Stand between the network and the routes: a gate that every request passes, and a short way for the commonest."""

import hashlib
import hmac
import re
import secrets
import time
import traceback
from collections.abc import Callable, Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from legcf.server.encoding import Json
from legcf.server.logs import log
from legcf.server.routes.operations import RouteTable
from legcf.server.settings import Settings, is_loopback
from legcf.server.telemetry import Telemetry

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
]
_WITH_BODY = ("POST", "PUT")  # nothing else has a body that anybody reads
_WRITING = (*_WITH_BODY, "DELETE", "PATCH")
_SHORTCUT_PREFIX = "/recommend/"
_NO_KEY = "This server needs a key: send it as X-API-Key or as a bearer token."
_WRONG_KEY = "The key is wrong: send the right one as X-API-Key or as a bearer token."


class Gate:
    """Check size and key of every request, give it an id, answer errors, count it, time it and write one log line."""

    def __init__(self, app: ASGIApp, settings: Settings, telemetry: Telemetry, table: RouteTable) -> None:
        self._app, self._settings, self._telemetry, self._table = app, settings, telemetry, table
        self._key = None if settings.api_key is None else _digest(settings.api_key.encode())
        self._origins = {origin.lower() for origin in settings.cors_origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 0
        headers = dict(scope["headers"])
        request_id = headers.get(b"x-request-id", b"")
        if not _REQUEST_ID.fullmatch(request_id):  # the caller's own, if it can safely be repeated
            request_id = secrets.token_hex(8).encode()
        scope["request_id"] = request_id.decode()  # for the lines that handlers log
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
            facts = {**self._facts(scope, request_id), "error": repr(error)}
            log("failure", "error", **facts, traceback=traceback.format_exc())
            if not status:
                detail = f"The server failed; its log says why, at request {request_id.decode()}."
                await Json({"detail": detail}, 500)(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - start
            self._telemetry.request(self._table.name(scope["method"], scope["path"]), status or 500, seconds)
            if self._settings.access_log:
                client = scope["client"][0] if scope.get("client") else None
                facts = self._facts(scope, request_id)
                log("request", **facts, status=status, ms=round(seconds * 1e3, 2), client=client)

    def _facts(self, scope: Scope, request_id: bytes) -> dict[str, str]:
        """Return what a log line says of a request. A path may hold a user's id, so it is left out by default."""
        facts = {"method": scope["method"], "route": self._table.name(scope["method"], scope["path"])}
        if self._settings.log_ids:
            query = scope["query_string"].decode("latin-1")
            facts["path"] = f"{scope['path']}?{query}" if query else scope["path"]
        return {**facts, "request_id": request_id.decode()}

    async def _pass(self, headers: dict[bytes, bytes], scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(headers, scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        if scope["method"] not in _WITH_BODY:
            await self._app(scope, receive, send)
            return
        body = await self._body(headers, receive)
        if body is None:
            detail = f"The body is larger than the {self._settings.max_body:,} bytes taken here: send smaller batches."
            await Json({"detail": detail}, 413)(scope, receive, send)
            return
        is_replayed = False

        async def replay() -> Message:
            nonlocal is_replayed
            if is_replayed:
                return await receive()
            is_replayed = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    def _refusal(self, headers: dict[bytes, bytes], scope: Scope) -> Json | None:
        """Return the answer to a request that may not pass, None if it may."""
        foreign = self._foreign(scope["method"], headers)
        if foreign is not None:
            return Json({"detail": foreign}, 403)
        if self._key is not None and not self._table.is_open(scope["method"], scope["path"]):
            sent_keys = list(_keys(headers))
            if not any([hmac.compare_digest(_digest(key), self._key) for key in sent_keys]):
                return Json({"detail": _WRONG_KEY if sent_keys else _NO_KEY}, 401, {"WWW-Authenticate": "Bearer"})
        has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if scope["method"] in _WITH_BODY and has_body and kind != b"application/json":
            detail = "The body must be JSON, and say so: send it with `Content-Type: application/json`."
            return Json({"detail": detail}, 415)
        return None

    def _foreign(self, method: str, headers: dict[bytes, bytes]) -> str | None:
        """Return why a request is refused that the page of another site may have made; None if it is not one.

        Such a page can have its own name lead to this server (DNS rebinding), or send what a form can send.
        """
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name, accepted = _host_name(host), self._settings.hosts
        if accepted is not None and name and name not in accepted and not is_loopback(name):
            return f"This server does not go by the name {name[:100]!r}: start it with `--allow-host` and the name."
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if method not in _WRITING or not origin:
            return None
        _, _, sender = origin.partition("://")
        if {origin, "*"} & self._origins or (sender and (sender == host or _host_name(sender) in (accepted or ()))):
            return None
        return f"Pages of {origin[:100]!r} may not send anything: start the server with `--cors-origin` if they should."

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """Return the whole body, or None as soon as it is known to be too large."""
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


def _host_name(host: str) -> str:
    """Return the name of "name:port", the address of "[address]:port"."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].rstrip(".")


def _digest(key: bytes) -> bytes:
    """Return what keys are compared by: of one length, so that the time says nothing of the key, nor of its length."""
    return hashlib.sha256(key).digest()


def _keys(headers: dict[bytes, bytes]) -> Iterable[bytes]:
    if b"x-api-key" in headers:
        yield headers[b"x-api-key"]
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and token.strip():
        yield token.strip()


class Shortcut:
    """Answer the commonest question, a known user's recommendations, without a router, a request object or a response
    object around it: they take as long as a third of the answer. Whatever is not of this kind, errors too, goes on.

    `answer` takes a user's id and the query as it came, and returns an answer in JSON or None.
    """

    def __init__(self, app: ASGIApp, answer: Callable[[str, bytes], bytes | None]) -> None:
        self._app, self._answer = app, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = None
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"].startswith(_SHORTCUT_PREFIX):
            content = self._answer(scope["path"][len(_SHORTCUT_PREFIX) :], scope["query_string"])
        if content is None:
            await self._app(scope, receive, send)
            return
        headers = [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})
