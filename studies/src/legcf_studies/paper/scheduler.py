# SPDX-License-Identifier: Apache-2.0
"""Do runs side by side: in as many processes of this machine as there are workers, started while cores and memory
allow, or on the workers of a Dask scheduler. Only this process writes the store."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from legcf.core.errors import UserError
from legcf_studies.paper.cells import Run, StudyContext
from legcf_studies.paper.published import PUBLISHED_METRICS
from legcf_studies.paper.store import ResultStore
from legcf_studies.workers.dask_engine import dask_client
from legcf_studies.workers.machine import code_version, cores, free_memory_mb
from legcf_studies.workers.process import OUTCOME, RETRIES, Outcome, WorkerJob, done_here, how_it_ended, started

_POLL_SECONDS = 0.1
_BASE_MB, _COPIES_OF_A_TABLE, _BASIS_MB = 500.0, 12, 1024.0


@dataclass
class Scheduler:
    """Work through runs until every one is finished or has failed."""

    store: ResultStore
    source: str
    typed: str
    options: Mapping[str, Any]
    context: StudyContext
    tell: Callable[[str, Run], None]

    def work(self, runs: Sequence[Run]) -> None:
        waiting = list({run.key: run for run in reversed(runs)}.values())[::-1]
        kept = [run for run in waiting if self.store.status(run.key)[0] == "finished"]
        for run in kept:
            self.tell("kept", run)
        self.store.work_folder.mkdir(parents=True, exist_ok=True)
        busy = f"Another command works on {self.store.path}; wait for it, or choose another --store."
        with _held(self.store.work_folder / "lock", busy):
            for run in kept:  # a command that was killed between its record and this
                shutil.rmtree(self.store.work_folder / run.key[:16], ignore_errors=True)
            self._do([run for run in waiting if run not in kept])

    def _do(self, runs: list[Run]) -> None:
        raise NotImplementedError

    def _begin(self, run: Run) -> WorkerJob:
        self.store.begin(run, self.context.dataset, code_version())
        return WorkerJob(
            self.source, dict(self.options), run.content_hash, run.config.to_json(), code_version(),
            per_user=PUBLISHED_METRICS, keep_state=run.cell.keep_state,
        )  # fmt: skip

    def _record(self, run: Run, outcome: Outcome) -> None:
        if outcome.error is not None:
            self.store.fail(run.key, outcome.error)
            self.tell("failed", run)
            return
        self.store.finish(run.key, outcome, run.cell.command(self.typed, run.seed, self.options))
        self.tell("finished", run)


@dataclass
class _Started:
    run: Run
    process: subprocess.Popen[str]
    expected_mb: float
    folder: Path
    log: Path


@dataclass
class HereScheduler(Scheduler):
    """Do runs in processes of this machine. What was stopped goes on from its checkpoint."""

    workers: int = field(default_factory=cores)
    _started: list[_Started] = field(default_factory=list)

    def _do(self, runs: list[Run]) -> None:
        waiting = list(runs)
        try:
            while waiting or self._started:
                self._collect()
                while waiting and self._can_start():
                    self._start(waiting.pop(0))
                time.sleep(_POLL_SECONDS)
        finally:
            self._stop()

    def _can_start(self) -> bool:
        """Return whether a worker is free and memory lasts for what runs and one more; a single run is always tried."""
        if not self._started:
            return True
        expected = expected_memory_mb(self.context)
        still_growing = sum(max(0.0, started.expected_mb - _resident_mb(started.process)) for started in self._started)
        return len(self._started) < self.workers and free_memory_mb() - still_growing > expected

    def _start(self, run: Run) -> None:
        folder = self.store.work_folder / run.key[:16]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / OUTCOME).unlink(missing_ok=True)
        job = replace(self._begin(run), folder=str(folder.resolve()), parent=os.getpid())
        log = self.store.work_folder / f"{run.key[:16]}.log"
        process = started(job, max(1, cores() // self.workers), log)
        self._started.append(_Started(run, process, expected_memory_mb(self.context), folder, log))
        self.tell("started", run)

    def _collect(self) -> None:
        """Take in what has ended; a process that could not say why was killed."""
        for one in list(self._started):
            code = one.process.poll()
            if code is None:
                continue
            self._started.remove(one)
            said = one.folder / OUTCOME
            if said.exists():
                self._record(one.run, Outcome.from_bytes(said.read_bytes()))
                shutil.rmtree(one.folder, ignore_errors=True)
            else:
                self._record(one.run, Outcome(error=f"The run {how_it_ended(code)}; see {one.log}."))
            if code == 0:
                one.log.unlink(missing_ok=True)

    def _stop(self) -> None:
        """Ask what still runs to end; checkpoints stay."""
        for one in self._started:
            one.process.terminate()
        for one in self._started:
            try:
                one.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                one.process.kill()
            self.store.release(one.run.key)


@dataclass
class DaskScheduler(Scheduler):
    """Do runs on the workers of a Dask scheduler, each of which must be able to open the data."""

    address: str

    def _do(self, runs: list[Run]) -> None:
        with dask_client(self.address, "--scheduler") as client:
            from distributed import as_completed

            submit = partial(client.submit, done_here, retries=RETRIES, pure=False)
            sent = {submit(self._begin(run).to_json(), key=f"legcf-{run.key}"): run for run in runs}
            try:
                for future in as_completed(list(sent)):  # type: ignore[no-untyped-call]
                    self._record(sent.pop(future), _outcome(future))
                    future.release()
            finally:
                client.cancel(list(sent))
                for run in sent.values():
                    self.store.release(run.key)


@contextmanager
def _held(path: Path, otherwise: str) -> Iterator[None]:
    """Lock `path` while this process works; another one gets the sentence `otherwise`. A lock ends with its process."""
    try:
        import fcntl
    except ImportError:  # Windows has none
        yield
        return
    with open(path, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(otherwise) from error
        yield


def _outcome(future: Any) -> Outcome:
    try:
        return Outcome.from_bytes(future.result())
    except Exception as error:  # whatever a task or a lost worker ended with
        return Outcome(error=f"{type(error).__name__}: {error}".splitlines()[0])


def expected_memory_mb(context: StudyContext) -> float:
    """Return a rough upper bound: the table with its gradient, moments and layers, and the cap of the basis."""
    table = context.num_entities * 128 * 4 / 2**20
    basis = min(_BASIS_MB, context.num_entities * context.buckets * 4 / 2**20)
    return _BASE_MB + _COPIES_OF_A_TABLE * table + basis


def _resident_mb(process: subprocess.Popen[str]) -> float:
    try:
        return float(psutil.Process(process.pid).memory_info().rss) / 2**20
    except psutil.NoSuchProcess:
        return 0.0
