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

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from concurrent.futures import ThreadPoolExecutor
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
_MAX_ENDING = 5.0  # seconds for a killed process to be gone
_BUFFER = 2**20  # bytes of an answer that are taken before the process has to wait; most answers are below 100 kB
_READY = b"+"
_MODELS = 2  # while a file is being replaced, batches that began before it end with the model they began with


class Helper:
    """Start the process with the first job and hand jobs to it, one after the other, from the event loop.

    A thread that waited for it would take Python's lock from short requests, time and again.
    """

    def __init__(self, path: Path, live: LiveState) -> None:
        self._path, self._live = path, live
        self._process: Process | None = None
        self._ready: asyncio.Task[bytes] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._thread = ThreadPoolExecutor(1, "instead-of-helper")

    async def perform(self, loaded: LoadedModel, job: Job | bytes) -> tuple[bytes, bytes]:
        """Let the process do it; or do it in a thread, if the process is not ready, has another model or has ended.

        The map, which takes seconds, waits for the process.
        """
        answer = None
        if self._failures < _MAX_FAILURES and await self.is_ready(patient=job == MAP):
            content = encode(job) if isinstance(job, dict) else job
            answer = await self._ask(b'{"model":' + encode(loaded.tag) + b"," + content[1:])
        if answer is None:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._thread, perform, loaded, job, self._live)
        return answer

    async def is_ready(self, patient: bool = True) -> bool:
        """Start the process, unless it runs, and return whether it takes jobs; wait until it does if `patient`."""
        try:
            if self._process is None or self._ready is None:
                self._process = await self._start()
                assert self._process.stdout is not None
                self._ready = asyncio.create_task(self._process.stdout.read(1))  # nothing if it ends: see `_ask`
        except OSError as error:
            self._lose(error)
            return False
        if not patient:
            return self._ready.done()
        await asyncio.wait([self._ready], timeout=_MAX_SECONDS)
        if not self._ready.done():  # such as a disk that hangs: everybody else in the queue would wait, too
            self._lose(TimeoutError("it did not start"))
        return self._process is not None

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._end()
        if self._ending:
            await asyncio.wait(self._ending, timeout=_MAX_ENDING)

    async def _start(self) -> Process:
        events = [] if self._live.log is None else [str(self._live.log.folder)]
        command = [sys.executable, "-m", "legcf.server.background.process", str(self._path), *events]
        return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=_BUFFER)

    async def _ask(self, message: bytes) -> tuple[bytes, bytes] | None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_MAX_SECONDS):
                process.stdin.write(_framed(message))
                await process.stdin.drain()
                answer = await _part(process.stdout), await _part(process.stdout)
        except (OSError, EOFError) as error:
            self._lose(error)
            return None
        except BaseException as error:  # nobody reads the rest of this answer, which the next would be taken for
            self._lose(error)
            raise
        self._failures = 0
        return answer if answer[0] else None

    def _lose(self, error: BaseException) -> None:
        self._end()
        self._failures += 1
        effect, again = "long work slows short requests down", self._failures < _MAX_FAILURES
        log("helper_ended", "warning", reason=str(error) or repr(error), effect=effect, again=again)

    def _end(self) -> None:
        if self._process is not None and self._ready is not None:
            self._ready.cancel()
            with suppress(ProcessLookupError):
                self._process.kill()
            ending = asyncio.create_task(_drained(self._process))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
        self._process = self._ready = None


async def _drained(process: Process) -> None:
    """Read what a killed process left, so that its pipes are closed."""
    await asyncio.sleep(0)  # whoever read last has to stop first
    with suppress(OSError):
        await process.communicate()


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(4, "little") + part


async def _part(stream: asyncio.StreamReader) -> bytes:
    return await stream.readexactly(int.from_bytes(await stream.readexactly(4), "little"))


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
        answers.write(_framed(results) + _framed(errors))
        answers.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the server, which says when to end
    if hasattr(os, "nice"):  # not on Windows
        os.nice(_NICENESS)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    event_log = EventLog(sys.argv[2]) if len(sys.argv) > 2 else None
    try:
        work(Path(sys.argv[1]), sys.stdin.buffer, answers, LiveState(event_log))
    except BrokenPipeError:  # the server was killed: nobody is there for what is left to write, nor for a traceback
        os._exit(0)


if __name__ == "__main__":
    main()
