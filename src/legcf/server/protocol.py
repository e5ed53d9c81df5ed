# SPDX-License-Identifier: Apache-2.0
"""Speak HTTP as uvicorn does, with one difference: an answer's head is sent together with its body.

By itself uvicorn writes them apart: two system calls, and a client that is woken up twice.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_ANSWER, _GO_ON = b"HTTP/1.1 ", b"HTTP/1.1 100 "


class JoiningProtocol(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._joining = _JoiningTransport(transport)
        super().connection_made(cast(asyncio.Transport, self._joining))

    def on_response_complete(self) -> None:
        self._joining.flush()  # of an answer that has no body
        super().on_response_complete()


class _JoiningTransport:
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._head and data.startswith(_ANSWER) and not data.startswith(_GO_ON):
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
