# SPDX-License-Identifier: Apache-2.0
"""One run in a process of its own: claim it, train it, write its result. `python -m legcf.experiments.worker` < job."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from legcf.data.options import DataOptions
from legcf.data.source import load
from legcf.errors import UserError
from legcf.evaluation import evaluate_per_user
from legcf.experiments.cells import Cell, Run
from legcf.experiments.machine import code_version, describe
from legcf.experiments.published import PUBLISHED_METRICS
from legcf.experiments.store import RENEW_SECONDS, ResultStore
from legcf.registry import config_from_json
from legcf.runs import train
from legcf.trained_model import TrainedModel

_PARENT_SECONDS = 0.5


@dataclass(frozen=True)
class WorkerJob:
    """What a worker is told, as JSON."""

    store: str
    source: str
    options: dict[str, Any]
    dataset: str
    command: str
    parent: int
    retry_failed_before: float
    run: Run

    def to_json(self) -> str:
        told = {name: value for name, value in self.__dict__.items() if name != "run"}
        told["cell"] = asdict(self.run.cell)
        told["config"] = self.run.config.to_json()
        return json.dumps({**told, "seed": self.run.seed, "content_hash": self.run.content_hash})

    @classmethod
    def from_json(cls, text: str) -> WorkerJob:
        told = json.loads(text)
        cell = Cell(**{**told.pop("cell")})
        run = Run(cell, told.pop("seed"), config_from_json(told.pop("config")), told.pop("content_hash"))
        return cls(run=run, **told)


def work(job: WorkerJob) -> int:
    """0 if the run is finished (by us or by others), 1 if it failed, 130 if it was stopped."""
    store, key = ResultStore(Path(job.store)), job.run.key
    if not store.claim(job.run, job.dataset, code_version(), job.retry_failed_before):
        return 0
    folder = store.work_folder / key[:16]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _renewing(job):
            _carry_out(job, store, folder)
    except KeyboardInterrupt:
        store.release(key)
        return 130
    except Exception as error:
        sentence = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}".splitlines()[0]
        if not isinstance(error, UserError):
            traceback.print_exc()
        shutil.rmtree(folder, ignore_errors=True)
        store.fail(key, sentence)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _carry_out(job: WorkerJob, store: ResultStore, folder: Path) -> None:
    dataset = load(job.source, DataOptions(**job.options))
    if dataset.content_hash != job.run.content_hash:
        raise UserError(f"{job.source} has changed since the reproduction was started; start it again.")
    trained = _trained(job, dataset, folder)
    ks = sorted({int(name.partition("@")[2]) for name in PUBLISHED_METRICS})
    names = {name.partition("@")[0] for name in PUBLISHED_METRICS}
    per_user, _, _ = evaluate_per_user(trained.ranking, dataset.test, ks, metrics=names)
    state = _state(trained) if job.run.cell.keep_state else None
    chosen = {name: per_user[name] for name in PUBLISHED_METRICS}
    store.finish(job.run.key, trained.metrics, trained.curve, chosen, describe(), job.command, state)


def _trained(job: WorkerJob, dataset: Any, folder: Path) -> TrainedModel:
    """Go on from the checkpoint of an earlier attempt where there is one that fits."""
    if (folder / "config.json").exists():
        try:
            return train(dataset, job.run.config, folder, resume=True, quiet=True)
        except UserError:
            pass  # of other code or damaged; or it fails again below, with the same sentence
    shutil.rmtree(folder, ignore_errors=True)
    return train(dataset, job.run.config, folder, quiet=True)


def _state(trained: TrainedModel) -> bytes:
    from safetensors.torch import save

    return bytes(save({name: tensor.contiguous() for name, tensor in trained.model.layer.state_dict().items()}))


@contextmanager
def _renewing(job: WorkerJob) -> Iterator[None]:
    """Renew the claim now and then, and leave at once when whoever started us is gone: nobody is waiting any more."""
    ended = threading.Event()

    def renew() -> None:
        store, passed = ResultStore(Path(job.store)), 0.0
        while not ended.wait(_PARENT_SECONDS):
            if os.getppid() != job.parent:
                os._exit(137)
            passed += _PARENT_SECONDS
            if passed >= RENEW_SECONDS:
                passed = 0.0
                store.renew(job.run.key)

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    try:
        sys.exit(work(WorkerJob.from_json(sys.stdin.read())))
    except KeyboardInterrupt:
        sys.exit(130)
