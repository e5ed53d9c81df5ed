# SPDX-License-Identifier: Apache-2.0
"""Run uvicorn so that a stop drops no request: in this process, or in several workers that are watched."""

import asyncio
import ctypes
import multiprocessing
import signal
import socket
import struct
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn

from legcf.server.app import app_from_environment
from legcf.server.logs import log, log_uvicorn
from legcf.server.protocol import ServerProtocol

_GRACE_SECONDS = 20  # for requests under way when the server has to stop
_LOOK_SECONDS = 0.3  # between two looks at whether all workers run
_HANDSHAKE_SECONDS = 0.1  # for connections whose handshake was under way when the listener was shut
_SO_ATTACH_FILTER = 26  # Linux; Python has no name for it
_NO_NEW_CONNECTION = (  # a socket filter (code, if true, if false, value): drop a packet whose TCP flags have SYN
    (0x30, 0, 0, 13),  # load the byte of flags
    (0x45, 0, 1, 0x02),  # is SYN set?
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # keep
)


def server_options() -> dict[str, Any]:
    """Return how uvicorn runs, whoever starts it."""
    return {
        "loop": "auto",  # uvloop, but on Windows
        "http": ServerProtocol,
        "ws": "none",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": _GRACE_SECONDS,
        "backlog": 1024,
    }


class DrainingServer(uvicorn.Server):
    """Take every connection that waits before the listener is closed: closing it would reset them.

    A client that comes meanwhile gets no answer, tries again by itself and is refused once the listener is closed.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in sockets or ():
            _shut(listener)
        await asyncio.sleep(_HANDSHAKE_SECONDS)  # those that come meanwhile are served as ever
        waiting = [connection for listener in sockets or () for connection in _accept_all(listener)]
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        protocol = partial(ServerProtocol, self.config, self.server_state, self.lifespan.state)
        for connection in waiting:
            with suppress(OSError):  # the client has gone
                await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
        await super().shutdown(sockets)


def _shut(listener: socket.socket) -> None:
    """Let no new connection begin, where the system can do so; those that have begun can still be accepted."""
    if sys.platform != "linux":
        return
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in _NO_NEW_CONNECTION))
    with suppress(OSError):  # a sandbox may forbid it, and a socket file needs none
        described = struct.pack("HP", len(_NO_NEW_CONNECTION), ctypes.addressof(program))
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


def _accept_all(listener: socket.socket) -> list[socket.socket]:
    listener.setblocking(False)
    connections: list[socket.socket] = []
    with suppress(OSError):  # there are no more
        while True:
            connection, _ = listener.accept()
            connection.setblocking(False)
            connections.append(connection)
    return connections


def work(listener: socket.socket) -> None:
    """Answer requests until a signal comes: what a worker process does."""
    log_uvicorn()
    DrainingServer(uvicorn.Config(app_from_environment(), **server_options())).run(sockets=[listener])


class Supervisor:
    """Start workers, start one again that has ended, and stop all when a signal comes."""

    def __init__(self, listener: socket.socket, workers: int) -> None:
        self._listener, self._num_workers = listener, workers
        self._context = multiprocessing.get_context("spawn")
        self._is_ending = threading.Event()

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._is_ending.set())
        workers = [self._start() for _ in range(self._num_workers)]
        while not self._is_ending.wait(_LOOK_SECONDS):
            for index, worker in enumerate(workers):
                if worker.exitcode is not None and not self._is_ending.is_set():
                    log("worker_ended", "error", worker=worker.pid, reason=_reason(worker.exitcode), again=True)
                    workers[index] = self._start()
        self._listener.close()  # the last worker that closes it has taken every connection
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()

    def _start(self) -> multiprocessing.process.BaseProcess:
        process = self._context.Process(target=work, args=(self._listener,))
        process.start()
        return process


def _reason(exit_code: int) -> str:
    """Say how a process ended, by its exit code, which is −n for the signal n."""
    with suppress(ValueError):
        if exit_code < 0:
            return signal.Signals(-exit_code).name
    return f"exit code {exit_code}"
