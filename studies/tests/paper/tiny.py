# SPDX-License-Identifier: Apache-2.0
"""Cells that train in a moment, and a reproduction of them as a process of its own that can be killed."""

from pathlib import Path
from typing import Any

import numpy as np

from legcf.core.config import merged
from legcf_studies.paper.cells import Cell, Run, StudyContext, plan
from legcf_studies.paper.store import ResultStore
from legcf_studies.workers.process import Outcome
from tests.forked import Forked, run_command

FAST: dict[str, Any] = {"training": {"epochs": 2, "batch_size": 200, "threads": 1}}


def tiny_cells(setting: StudyContext) -> list[Cell]:
    """Only the full table listens to --set, so that it alone can be made to fail."""
    small = {"method": {"c": 8, "dim": 8}}
    return [
        Cell("on", "update on", "legcf", ("paper",), merged(FAST, small), keep_state=True),
        Cell("table", "full table", "full", ("paper",), merged(FAST, {"method": {"dim": 8}}, setting.overrides)),
        Cell("missing", "not there", "no-such-method", ("paper",)),
    ]


def runs(seeds: int = 1, content_hash: str = "data") -> tuple[Run, ...]:
    return plan(tuple(tiny_cells(StudyContext("planted", 40, 40))), seeds, content_hash).runs


def start(data: Path, out: Path, log: Path, *more: str) -> Forked:
    words = ("reproduce", "ablation", "--data", str(data), "--out", str(out), "--workers", "1", *more)
    return Forked(_reproduce, *words, log=log)


def _reproduce(*words: str) -> None:
    from legcf_studies.paper.studies import STUDIES, Study

    STUDIES["ablation"] = Study("Tiny", "table", tiny_cells)
    run_command(*words)


def pretend_finished(store: ResultStore, run: Run, score: float, users: int = 50, state: bytes | None = None) -> None:
    """Put a result into the store that no training made."""
    store.begin(run, "planted", "0")
    rng = np.random.default_rng([run.seed, round(score * 1000)])
    names = ("ndcg@10", "recall@10", "ndcg@20", "recall@20")
    per_user = {name: np.clip(score + 0.1 * rng.standard_normal(users), 0, 1).astype(np.float32) for name in names}
    metrics = {
        "test": {name: float(values.mean()) for name, values in per_user.items()},
        "validation": {}, "num_params": 1000 + len(run.cell.name), "storage_bytes": 4000, "total_trainable": 1000,
        "seconds": {"set_up": 1.0, "train": 2.0, "evaluate": 1.0}, "peak_rss_mb": 100.0,
        "best_epoch": {"stage": "train", "epoch": 1},
    }  # fmt: skip
    curve = [{"seconds": 1.0, "validation": {"ndcg@20": score / 2}}, {"seconds": 1.0, "validation": {"ndcg@20": score}}]
    machine = dict.fromkeys(("host", "processor", "cores", "memory_gb", "system", "python", "torch"), "x")
    store.finish(run.key, Outcome(None, metrics, curve, machine, per_user, state), "legcf train …")
