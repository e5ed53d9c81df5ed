# SPDX-License-Identifier: Apache-2.0
"""Events into `legcf serve` while it is killed: what was acknowledged is in the log, once, and every worker knows."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from legcf.server.state.event_log import EventLog
from tests.cli.commands.test_serve import MAIN, serving
from tests.served import encoder, model, model_file, placing_file, toy  # noqa: F401 - fixtures

EVENTS, KILLS, SENDERS, TOGETHER, PATIENCE = 2000, 2, 8, 10, 120.0


class Victim:
    """A server with two workers that can be killed and started again on the same port."""

    def __init__(self, path: Path, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        options = ["--port", str(self.port), "--workers", "2", "--accept-events", str(folder), "--no-access-log"]
        self._command = [sys.executable, "-c", MAIN, "serve", str(path), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL, start_new_session=True)

    def kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)


@contextmanager
def running(victim: Victim) -> Iterator[None]:
    victim.start()
    try:
        yield
    finally:
        victim.kill()


def test_kill_loses_and_doubles_nothing(model_file: Path, tmp_path: Path) -> None:  # noqa: F811
    victim = Victim(model_file, tmp_path / "log")
    acknowledged: list[str] = []
    end = time.monotonic() + PATIENCE

    def send(part: int) -> None:
        """The same again until it is acknowledged: some of it may be on disk already."""
        with httpx.Client(base_url=f"http://127.0.0.1:{victim.port}", timeout=5) as client:
            for first in range(part * TOGETHER, EVENTS, SENDERS * TOGETHER):
                ids = range(first, min(first + TOGETHER, EVENTS))
                events = [{"id": f"e{n}", "user": f"u{n % 60}", "item": f"i/{n % 90}"} for n in ids]
                while time.monotonic() < end:
                    with contextlib.suppress(httpx.TransportError):
                        if client.post("/interactions", json={"events": events}).status_code == 200:
                            acknowledged.extend(event["id"] for event in events)
                            break
                    time.sleep(0.02)

    with running(victim):
        senders = [threading.Thread(target=send, args=(part,), daemon=True) for part in range(SENDERS)]
        for sender in senders:
            sender.start()
        for kill in range(1, KILLS + 1):
            while len(acknowledged) < EVENTS * kill / (KILLS + 1):
                assert time.monotonic() < end
                time.sleep(0.005)
            victim.kill()
            victim.start()
        for sender in senders:
            sender.join(max(0.1, end - time.monotonic()))
    _, events = EventLog(tmp_path / "log").since()
    assert len(acknowledged) == EVENTS
    assert sorted(event.id for event in events) == sorted(acknowledged)


def _seconds(client: httpx.Client) -> float:
    start = time.perf_counter()
    assert client.get("/live").status_code == 200
    return time.perf_counter() - start


def test_every_worker_knows_what_one_was_told(model_file: Path, tmp_path: Path) -> None:  # noqa: F811
    with serving(model_file, "--workers", "2", "--accept-events", str(tmp_path / "log")) as (base, _):
        for turn in range(20):  # a connection each: any worker may take it
            user = f"somebody-{turn}"
            event = {"user": user, "item": "i/1"}
            assert httpx.post(f"{base}/interactions", json={"events": [event]}, timeout=30).status_code == 200
            answer = httpx.get(f"{base}/recommend/{user}?k=3", timeout=30)
            assert answer.status_code == 200, answer.text
        with httpx.Client(base_url=base, timeout=30) as client:  # no part of an answer waits for the other's receipt
            assert min(_seconds(client) for _ in range(30)) < 0.035
        for turn in range(10):  # both workers have the answer from before in their caches
            answers = [httpx.get(f"{base}/recommend/u{turn}?k=5", timeout=30).json()["items"] for _ in range(4)]
            bought = answers[0][0]["id"]
            event = {"user": f"u{turn}", "item": bought}
            assert httpx.post(f"{base}/interactions", json={"events": [event]}, timeout=30).status_code == 200
            for _ in range(4):
                found = httpx.get(f"{base}/recommend/u{turn}?k=5", timeout=30).json()["items"]
                assert bought not in [item["id"] for item in found]
        httpx.put(f"{base}/items/i/4", json={"available": False}, timeout=30)
        for _ in range(6):
            found = httpx.get(f"{base}/recommend/somebody-0?k=80", timeout=30).json()["items"]
            assert "i/4" not in [item["id"] for item in found]


def test_a_described_item_outlives_a_kill(placing_file: Path, tmp_path: Path) -> None:  # noqa: F811
    """Known to the worker that was told at once, to the other within a second or so, and to both after a kill."""
    victim = Victim(placing_file, tmp_path / "log")
    base, end = f"http://127.0.0.1:{victim.port}", time.monotonic() + PATIENCE

    def shown() -> bool:
        found = httpx.get(f"{base}/recommend/u4?k=80", timeout=30).json()["items"]
        return "i/new" in [item["id"] for item in found]

    def until_all_answers_have_it() -> None:
        in_a_row = 0
        while in_a_row < 12:
            assert time.monotonic() < end
            try:
                in_a_row = in_a_row + 1 if shown() else 0
            except httpx.TransportError:  # not up yet
                time.sleep(0.05)

    with running(victim):
        taken = False
        while not taken:
            assert time.monotonic() < end
            with contextlib.suppress(httpx.TransportError):
                answer = httpx.put(f"{base}/items/i/new", json={"features": {"kind": "group 1"}}, timeout=30)
                taken = answer.status_code == 200 and answer.json()["known"]
            time.sleep(0.05)
        victim.kill()
        victim.start()
        until_all_answers_have_it()


def test_a_folder_that_cannot_be_written_is_told_before_anything_starts(model_file: Path, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-c", MAIN, "serve", str(model_file), "--accept-events", str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "cannot be opened as a log of events" in done.stderr
