# SPDX-License-Identifier: Apache-2.0
"""Speak HTTP as uvicorn does, with three differences: a request's head is bounded, an answer's head is sent together
with its body, and a server that stops says so before it hangs up.

By itself uvicorn takes a request line and headers of any length, and writes head and body of an answer apart: two
system calls, and a client that is woken up twice. And it closes idle connections at once when it stops, which loses
the requests that are on their way.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from legcf.server.encoding import encode

MAX_LINE = 8 * 1024  # bytes of a request's path and query
MAX_HEADERS = 32 * 1024  # bytes of a request's headers, the trailers behind a body included
_SEPARATORS = 4  # bytes of ": " and the end of line
_REFUSALS = {
    414: f"The path and query are longer than the {MAX_LINE:,} bytes taken here: send a long list by POST.",
    431: f"The headers are longer than the {MAX_HEADERS:,} bytes taken here: send fewer or shorter ones.",
}
_CLOSE = (b"connection", b"close")
_DRAIN_SECONDS = 1.0  # without a request, after which a connection of a stopping server is closed
_ANSWER, _CONTINUE = b"HTTP/1.1 ", b"HTTP/1.1 100 "


class _TooLong(Exception):
    """End the parsing of a request; uvicorn then calls `send_400_response`."""


class ServerProtocol(HttpToolsProtocol):
    _header_bytes = 0  # of this request, those that were parsed
    _unparsed_bytes = 0  # that came since something was parsed: the parser keeps a header until its end
    _refusal: int | None = None
    _used_at = 0.0  # when something came or went last, by the loop's clock
    _is_draining = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._joining = _JoiningTransport(transport)
        self._used_at = self.loop.time()
        super().connection_made(cast(asyncio.Transport, self._joining))

    def data_received(self, data: bytes) -> None:
        self._unparsed_bytes += len(data)
        self._used_at = self.loop.time()
        super().data_received(data)
        if self._unparsed_bytes > MAX_HEADERS and self._refusal is None:
            self._refusal = 431
            self.send_400_response("")

    def on_message_begin(self) -> None:
        self._header_bytes = self._unparsed_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._unparsed_bytes = 0
        if len(self.url) > MAX_LINE:
            self._refuse(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._unparsed_bytes = 0
        self._header_bytes += len(name) + len(value) + _SEPARATORS
        if self._header_bytes > MAX_HEADERS:
            self._refuse(431)
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed_bytes = 0
        super().on_message_complete()

    def _refuse(self, status: int) -> None:
        self._refusal = status
        raise _TooLong

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, or one whose head is too long, and hang up."""
        if self._refusal is None:
            super().send_400_response(msg)
            return
        content = encode({"detail": _REFUSALS[self._refusal]})
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(content)
        self.transport.write(STATUS_LINE[self._refusal] + head + content)
        self.transport.close()

    def on_response_complete(self) -> None:
        self._joining.flush()  # of an answer that has no body
        self._used_at = self.loop.time()
        super().on_response_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: the request is answered and logged as if it asked for no other protocol."""

    def shutdown(self) -> None:
        """Answer what is under way or comes within a moment, with `Connection: close`; then hang up."""
        if self._is_draining:
            return
        self._is_draining = True
        if _CLOSE not in self.server_state.default_headers:
            self.server_state.default_headers.append(_CLOSE)
        if self.cycle is not None and _CLOSE not in self.cycle.default_headers:
            self.cycle.default_headers = [*self.cycle.default_headers, _CLOSE]
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        is_idle = self.cycle is None or self.cycle.response_complete
        left = self._used_at + _DRAIN_SECONDS - self.loop.time() if is_idle else _DRAIN_SECONDS
        if left > 0:
            self.loop.call_later(left, self._close_when_idle)
        elif not self.transport.is_closing():
            self.transport.close()


class _JoiningTransport:
    """Hold an answer's head back until its body comes."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._head and data.startswith(_ANSWER) and not data.startswith(_CONTINUE):
            self._head = data
        else:
            self._transport.write(self._head + data)
            self._head = b""

    def flush(self) -> None:
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        self.flush()
        self._transport.close()
