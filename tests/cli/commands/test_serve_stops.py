# SPDX-License-Identifier: Apache-2.0
"""`legcf serve` stops without dropping a request, says which worker was killed, and logs nothing but JSON."""

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.served import model, model_file, toy  # noqa: F401 - fixtures

from .test_serve import _wait, serving

CONNECTIONS = 8


class Caller(threading.Thread):
    """Ask over one connection without a pause until the server refuses a new one; keep what went wrong."""

    def __init__(self, base: str) -> None:
        super().__init__()
        address = urlsplit(base)
        assert address.hostname is not None
        assert address.port is not None
        self._connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        self.answers, self.closed, self.errors = 0, 0, list[str]()

    def run(self) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                self._connection.connect()
            except ConnectionRefusedError:
                return
            except OSError as error:
                self.errors.append(repr(error))
                return
            is_open = True
            while is_open:
                try:
                    self._connection.request("GET", f"/recommend/u{self.answers % 60}?k=5")
                    answer = self._connection.getresponse()
                    assert answer.status == 200
                    assert json.loads(answer.read())["items"]
                except (OSError, http.client.HTTPException) as error:
                    self.errors.append(repr(error))
                    return
                self.answers += 1
                is_open = answer.getheader("connection") != "close"
            self.closed += 1
            self._connection.close()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_stop_under_load_drops_no_request(model_file: Path, workers: str) -> None:  # noqa: F811
    with serving(model_file, "--workers", workers, "--no-access-log") as (base, process):
        callers = [Caller(base) for _ in range(CONNECTIONS)]
        for caller in callers:
            caller.start()
        while any(caller.answers < 20 for caller in callers):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        for caller in callers:
            caller.join()
        process.communicate(timeout=30)
        assert process.returncode == 0
        assert [caller.errors for caller in callers] == [[]] * CONNECTIONS
        assert all(caller.closed for caller in callers)  # they were asked to go


def test_a_killed_worker_is_logged_and_replaced(model_file: Path) -> None:  # noqa: F811
    with serving(model_file, "--workers", "2") as (base, process):
        watchdog = threading.Timer(60, process.kill)  # else a server that logs nothing is read without end
        watchdog.start()
        victim = _workers(process)[0]
        os.kill(victim.pid, signal.SIGKILL)
        assert process.stderr is not None
        for line in process.stderr:
            event = json.loads(line)
            if event["event"] == "worker_ended":
                break
        watchdog.cancel()
        assert (event["level"], event["worker"], event["reason"]) == ("error", victim.pid, "SIGKILL")
        while len(_workers(process)) < 2:
            time.sleep(0.05)
        _wait(base)


def _workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return [one for one in psutil.Process(process.pid).children() if "spawn_main" in " ".join(one.cmdline())]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_is_no_plain_request_is_logged_as_json(model_file: Path, workers: str) -> None:  # noqa: F811
    upgrade = b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with serving(model_file, "--workers", workers) as (base, process):
        address = urlsplit(base)
        for sent, status in ((upgrade, b"200"), (b"nonsense\r\n\r\n", b"400")):
            with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
                connection.sendall(sent)
                assert connection.recv(1000).split()[1] == status
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        events = [json.loads(line) for line in log.splitlines()]
        assert [event["route"] for event in events if event["event"] == "request"][-1:] == ["live"]
        assert not [event for event in events if "WebSocket" in str(event)]
