# SPDX-License-Identifier: Apache-2.0
"""Run a process beside the server that does its long work, so that short requests find the server free.

Two threads of one process share Python's lock, and whoever holds it may just have lost its core to somebody else; two
processes share nothing, and this one steps back (`nice`) where both want a core. It starts with the first long request,
loads the same file, takes jobs from its standard input and ends with the server. Until it is ready, the server does the
work itself: nobody waits for a process to start.

    ready   one byte
    job     4 bytes of length, JSON {"model": tag, "do": …}
    answer  two parts, each 4 bytes of length and so many bytes; the first is empty if the job could not be done
"""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

from legcf.server.background.jobs import MAP, Job, perform
from legcf.server.encoding import encode
from legcf.server.logs import log
from legcf.server.state.event_log import EventLog
from legcf.server.state.live_state import LiveState
from legcf.server.state.loaded_model import LoadedModel

_NICENESS = 10
_MAX_FAILURES = 3  # in a row; then the server does everything itself
_MAX_SECONDS = 120.0  # for a job, most of which take milliseconds and the map of a large model seconds
_READY = b"+"
_MODELS = 2  # while a file is being replaced, batches that began before it end with the model they began with


class Helper:
    """Start the process with the first job and hand jobs to it; to be used from one thread."""

    def __init__(self, path: Path, live: LiveState) -> None:
        self._path, self._live = path, live
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = threading.Event()
        self._failures = 0

    def perform(self, loaded: LoadedModel, job: Job | bytes) -> tuple[bytes, bytes]:
        """Let the process do it; or do it here, if the process is not ready, has another model or has ended.

        The map, which takes seconds, waits for the process.
        """
        answer = None
        if self._failures < _MAX_FAILURES and self.is_ready(patient=job == MAP):
            content = encode(job) if isinstance(job, dict) else job
            answer = self._ask(b'{"model":' + encode(loaded.tag) + b"," + content[1:])
        return perform(loaded, job, self._live) if answer is None else answer

    def is_ready(self, patient: bool = True) -> bool:
        """Start the process, unless it runs, and return whether it takes jobs; wait until it does if `patient`."""
        try:
            if self._process is None:
                self._start()
        except OSError as error:
            self._lose(error)
            return False
        return self._ready.wait(None if patient else 0)

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _ask(self, message: bytes) -> tuple[bytes, bytes] | None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        limit = threading.Timer(_MAX_SECONDS, process.kill)
        limit.daemon = True
        limit.start()
        try:
            _write(process.stdin, message)
            process.stdin.flush()
            answer = _read(process.stdout), _read(process.stdout)
        except (OSError, EOFError) as error:
            self._lose(error)
            return None
        finally:
            limit.cancel()
        self._failures = 0
        return answer if answer[0] else None

    def _lose(self, error: Exception) -> None:
        self._failures += 1
        self._process = None
        effect, again = "long work slows short requests down", self._failures < _MAX_FAILURES
        log("helper_ended", "warning", reason=str(error), effect=effect, again=again)

    def _start(self) -> None:
        events = [] if self._live.log is None else [str(self._live.log.folder)]
        command = [sys.executable, "-m", "legcf.server.background.process", str(self._path), *events]
        process = self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ready = self._ready = threading.Event()

        def wait() -> None:
            assert process.stdout is not None
            os.read(process.stdout.fileno(), 1)  # nothing if it has ended: whoever asks it then finds out
            ready.set()

        threading.Thread(target=wait, daemon=True).start()


def _write(stream: IO[bytes], part: bytes) -> None:
    stream.write(len(part).to_bytes(4, "little") + part)


def _read(stream: IO[bytes]) -> bytes:
    size = stream.read(4)
    part = stream.read(int.from_bytes(size, "little"))
    if len(size) < 4 or len(part) < int.from_bytes(size, "little"):
        raise EOFError
    return part


def work(path: Path, jobs: IO[bytes], answers: IO[bytes], live: LiveState) -> None:
    """Say that the model is loaded, then do jobs until there are no more."""
    models: dict[str, LoadedModel] = {}
    with suppress(Exception):  # a bad file is reported by the server
        loaded = LoadedModel.of(path).with_described_items(live.log)
        models[loaded.tag] = loaded
    answers.write(_READY)
    answers.flush()
    while True:
        try:
            job = json.loads(_read(jobs))
        except EOFError:
            return
        try:
            if job["model"] not in models:
                loaded = LoadedModel.of(path).with_described_items(live.log)
                models[loaded.tag] = loaded
                models = dict(list(models.items())[-_MODELS:])
            results, errors = perform(models[job["model"]], job, live)
        except Exception:  # the server tries it itself, and reports what is wrong
            results, errors = b"", b""
        _write(answers, results)
        _write(answers, errors)
        answers.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the server, which says when to end
    if hasattr(os, "nice"):  # not on Windows
        os.nice(_NICENESS)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    event_log = EventLog(sys.argv[2]) if len(sys.argv) > 2 else None
    work(Path(sys.argv[1]), sys.stdin.buffer, answers, LiveState(event_log))


if __name__ == "__main__":
    main()
