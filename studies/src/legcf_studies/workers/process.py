# SPDX-License-Identifier: Apache-2.0
"""Train in a process of its own, and hand back what came of it. `python -m legcf_studies.workers.process` < job.

The process writes its outcome to a file; whoever started it puts that where it belongs. So a results store is written
by one process alone, wherever its runs are trained: on this machine, or by the workers of a Dask cluster.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.core.files import written_whole
from legcf.data.options import DataOptions
from legcf.data.source import load_data
from legcf.evaluation.evaluate import evaluate_per_user
from legcf.training.registry import config_from_json
from legcf.training.run import train
from legcf.training.run_folder import TrainedModel
from legcf.training.session import TrainingOptions
from legcf_studies.workers.machine import code_version, cores, describe

_PARENT_SECONDS = 0.5
_STATE, _FACTS = "state", "facts"  # arrays of an outcome, beside those of metrics
OUTCOME = "outcome.safetensors"
RETRIES = 2  # of a run whose process on a Dask worker dies; a lost worker's runs are moved by Dask itself
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
# Every step needs the same large arrays again. By default glibc gives them back to the system and takes them anew, page
# by page: a third of a step's time. Kept, and in large pages, they cost nothing. Other C libraries do not read this.
_KEEP_MEMORY = ":".join(
    f"glibc.malloc.{name}={value}"
    for name, value in {"hugetlb": 1, "mmap_max": 0, "trim_threshold": 1 << 40, "top_pad": 1 << 26}.items()
)


@dataclass(frozen=True)
class WorkerJob:
    """Hold what to train; as JSON it goes to the process that does it."""

    source: str
    options: dict[str, Any]
    content_hash: str
    config: dict[str, Any]
    code: str
    """The version of the code that asks: a result must not come from another."""
    folder: str = ""
    """Where checkpoints and the outcome are."""
    parent: int = 0
    per_user: Sequence[str] = ()
    """Metrics that are measured for every test user apart, such as ndcg@20."""
    keep_state: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Outcome:
    """Hold what a training came to: its results, or the sentence it failed with."""

    error: str | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    curve: list[dict[str, Any]] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)
    per_user: Mapping[str, NDArray[np.floating]] = field(default_factory=dict)
    state: bytes | None = None

    def to_bytes(self) -> bytes:
        from safetensors.numpy import save

        arrays = {f"of {name}": np.asarray(values, dtype=np.float32) for name, values in self.per_user.items()}
        if self.state is not None:
            arrays[_STATE] = np.frombuffer(self.state, dtype=np.uint8)
        facts = {"error": self.error, "metrics": self.metrics, "curve": self.curve, "machine": self.machine}
        return bytes(save({**arrays, _FACTS: np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)}))

    @classmethod
    def from_bytes(cls, content: bytes) -> Outcome:
        from safetensors.numpy import load

        arrays = load(content)
        facts = json.loads(arrays.pop(_FACTS).tobytes())
        state = arrays.pop(_STATE, None)
        per_user = {name.removeprefix("of "): values for name, values in arrays.items()}
        return cls(**facts, per_user=per_user, state=None if state is None else state.tobytes())


def started(job: WorkerJob, threads: int, log: Path) -> subprocess.Popen[str]:
    """Start the process that does the job."""
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "legcf_studies.workers.process"],
            stdin=subprocess.PIPE, stdout=file, stderr=file, text=True,
            env={"GLIBC_TUNABLES": _KEEP_MEMORY, **os.environ, **dict.fromkeys(_THREADS, str(threads))},
        )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(job.to_json())
    process.stdin.close()
    return process


def done_here(text: str) -> bytes:
    """Do a job (as JSON) on this machine for somebody elsewhere, as a Dask task; return the outcome's bytes.

    A process that dies without a word is an error, so that Dask tries again; a failure that would repeat is an outcome.
    """
    from distributed import get_worker

    threads = max(1, cores() // max(1, get_worker().state.nthreads))
    with tempfile.TemporaryDirectory(prefix="legcf-run-") as folder:
        job = WorkerJob(**{**json.loads(text), "folder": folder, "parent": os.getpid()})
        log = Path(folder) / "log"
        code = started(job, threads, log).wait()
        outcome = Path(folder) / OUTCOME
        if not outcome.exists():
            raise RuntimeError(f"The run {how_it_ended(code)}: {log.read_text(encoding='utf-8')[-2000:]}")
        return outcome.read_bytes()


def how_it_ended(code: int) -> str:
    return f"was killed by signal {-code}, perhaps for want of memory" if code < 0 else f"ended with {code}"


def work(job: WorkerJob) -> int:
    """Do a job; return 0 if it is finished, 1 if it failed, 130 if it was stopped (only then there is no outcome)."""
    folder = Path(job.folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _ending_with(job.parent):
            outcome = _carried_out(job, folder / "run")
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        sentence = str(error)
        if not isinstance(error, UserError):
            traceback.print_exc()
            sentence = f"{type(error).__name__}: {error}".splitlines()[0]
        outcome = Outcome(error=sentence)
    with written_whole(folder / OUTCOME) as temporary:
        temporary.write_bytes(outcome.to_bytes())
    return 0 if outcome.error is None else 1


def _carried_out(job: WorkerJob, folder: Path) -> Outcome:
    from safetensors.numpy import save

    if job.code != code_version():
        raise UserError(
            f"This worker has legcf {code_version()}, and {job.code} asks: install the same on all machines."
        )
    dataset = load_data(job.source, DataOptions(**job.options))
    if dataset.content_hash != job.content_hash:
        raise UserError(f"{job.source} is not the data that the command was started with; start it again.")
    trained = _trained(job, dataset, folder)
    per_user = {}
    if job.per_user:
        ks = sorted({int(name.partition("@")[2]) for name in job.per_user})
        names = {name.partition("@")[0] for name in job.per_user}
        values, _, _ = evaluate_per_user(trained.ranking, dataset.test, ks, metrics=names)
        per_user = {name: values[name] for name in job.per_user}
    state = None
    if job.keep_state:
        state = save({name: np.asarray(values, order="C") for name, values in trained.model.layer.state_dict().items()})
    return Outcome(None, trained.metrics, trained.curve, describe(), per_user, state)


def _trained(job: WorkerJob, dataset: Any, folder: Path) -> TrainedModel:
    """Go on from the checkpoint of an earlier attempt where there is one that fits."""
    config = config_from_json(job.config)
    if (folder / "config.json").exists():
        try:
            return train(dataset, config, TrainingOptions(folder, resume=True, quiet=True))
        except UserError:
            pass  # of other code or damaged; or it fails again below, with the same sentence
    shutil.rmtree(folder, ignore_errors=True)
    return train(dataset, config, TrainingOptions(folder, quiet=True))


@contextmanager
def _ending_with(parent: int) -> Iterator[None]:
    """Leave at once when whoever started us is gone: nobody is waiting any more."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_PARENT_SECONDS):
            if os.getppid() != parent:
                os._exit(137)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    try:
        sys.exit(work(WorkerJob(**json.load(sys.stdin))))
    except KeyboardInterrupt:
        sys.exit(130)
