# SPDX-License-Identifier: Apache-2.0
"""The question that is asked most, a known user's recommendations, answered without a router, a request object or a
response object around it: they take as long as a third of the answer.

Whatever is not of the usual kind, errors too, goes the usual way.
"""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

_PREFIX = "/recommend/"


class Shortcut:
    """`answer` takes a user's id and the query as it came, and gives an answer in JSON or None."""

    def __init__(self, app: ASGIApp, answer: Callable[[str, bytes], bytes | None]) -> None:
        self._app, self._answer = app, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = None
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"].startswith(_PREFIX):
            content = self._answer(scope["path"][len(_PREFIX) :], scope["query_string"])
        if content is None:
            await self._app(scope, receive, send)
            return
        headers = [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})
