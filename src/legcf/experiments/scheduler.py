# SPDX-License-Identifier: Apache-2.0
"""Runs side by side: as many processes as there are workers, started while cores and memory allow."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from legcf.errors import UserError
from legcf.experiments.cells import Run, Setting
from legcf.experiments.machine import cores, free_memory_mb
from legcf.experiments.store import ResultStore, mark_of
from legcf.experiments.worker import WorkerJob

_POLL_SECONDS = 0.1
_BASE_MB, _COPIES_OF_A_TABLE, _BASIS_MB = 500.0, 12, 1024.0


@dataclass
class _Started:
    run: Run
    process: subprocess.Popen[str]
    mark: str
    expected_mb: float
    log: Path


class Scheduler:
    """Works through runs until every one is finished or has failed; those that others are at are waited for."""

    def __init__(
        self,
        store: ResultStore,
        source: str,
        options: Mapping[str, Any],
        setting: Setting,
        workers: int | None = None,
        tell: Callable[[str, Run], None] = lambda event, run: None,
    ) -> None:
        self._store, self._source, self._options, self._setting = store, source, dict(options), setting
        self._workers = workers or cores()
        if self._workers < 1:
            raise UserError(f"--workers {workers} cannot do anything; give at least 1.")
        self._tell = tell
        self._since = time.time()
        self._started: list[_Started] = []
        self._elsewhere: set[str] = set()

    def work(self, runs: Sequence[Run]) -> None:
        waiting = list({run.key: run for run in reversed(runs)}.values())[::-1]
        for run in [run for run in waiting if self._store.status(run.key)[0] == "finished"]:
            waiting.remove(run)
            self._tell("kept", run)
        try:
            while waiting or self._started:
                self._collect()
                for run in list(waiting):
                    if self._has_room():
                        self._take_up(run, waiting)
                time.sleep(_POLL_SECONDS)
        finally:
            self._stop()

    def _take_up(self, run: Run, waiting: list[Run]) -> None:
        """Start a run, or note that it ended, or that somebody else is at it."""
        if any(started.run.key == run.key for started in self._started):
            return
        if self._store.is_open(run, self._since):
            self._start(run)
            return
        status, _ = self._store.status(run.key)
        if status in ("finished", "failed"):
            waiting.remove(run)
            self._tell(status, run)
        elif run.key not in self._elsewhere:
            self._elsewhere.add(run.key)
            self._tell("elsewhere", run)

    def _has_room(self) -> bool:
        """A free worker, and memory for what runs already and one more; a single run is always tried."""
        if not self._started:
            return True
        expected = expected_memory_mb(self._setting)
        still_growing = sum(max(0.0, started.expected_mb - _resident_mb(started.process)) for started in self._started)
        return len(self._started) < self._workers and free_memory_mb() - still_growing > expected

    def _start(self, run: Run) -> None:
        job = WorkerJob(
            str(self._store.path.resolve()), self._source, self._options, self._setting.dataset,
            run.cell.command(self._source, run.seed, self._options), os.getpid(), self._since, run,
        )  # fmt: skip
        threads = str(max(1, cores() // self._workers))
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
        self._store.work_folder.mkdir(parents=True, exist_ok=True)
        log = self._store.work_folder / f"{run.key[:16]}.log"
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        with open(log, "w", encoding="utf-8") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "legcf.experiments.worker"],
                stdin=subprocess.PIPE, stdout=file, stderr=file, text=True, env=environment,
            )  # fmt: skip
        mark = mark_of(psutil.Process(process.pid))
        assert process.stdin is not None
        process.stdin.write(job.to_json())
        process.stdin.close()
        self._started.append(_Started(run, process, mark, expected_memory_mb(self._setting), log))
        self._tell("started", run)

    def _collect(self) -> None:
        """Take note of processes that ended; one that could not say why was killed."""
        for started in list(self._started):
            code = started.process.poll()
            if code is None:
                continue
            self._started.remove(started)
            if self._store.status(started.run.key)[0] == "running":
                reason = (
                    f"was killed by signal {-code}, perhaps for want of memory" if code < 0 else f"ended with {code}"
                )
                self._store.fail(started.run.key, f"The run {reason}; see {started.log}.", started.mark)
            elif code not in (0, 1):
                raise UserError(f"A worker could not start (exit code {code}); see {started.log}.")
            if code == 0:
                started.log.unlink(missing_ok=True)

    def _stop(self) -> None:
        """Ask what still runs to end; claims are given back and checkpoints stay."""
        for started in self._started:
            started.process.terminate()
        for started in self._started:
            try:
                started.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                started.process.kill()


def expected_memory_mb(setting: Setting) -> float:
    """A rough upper bound: the table with its gradient, moments and layers, and the cap of the basis."""
    table = setting.num_entities * 128 * 4 / 2**20
    basis = min(_BASIS_MB, setting.num_entities * setting.buckets * 4 / 2**20)
    return _BASE_MB + _COPIES_OF_A_TABLE * table + basis


def _resident_mb(process: subprocess.Popen[str]) -> float:
    try:
        return float(psutil.Process(process.pid).memory_info().rss) / 2**20
    except psutil.NoSuchProcess:
        return 0.0
