# SPDX-License-Identifier: Apache-2.0
"""What every runner shares: the split as sparse matrices, the choice among settings, stopwatches and the record.

    python runners/PROJECT.py SPLIT MODEL SETTINGS OUT

SPLIT is a folder of `legcf data export`, SETTINGS a JSON object, or a list of them of which validation chooses one. OUT
is written whole at the end: ranked lists and a JSON record. Needs numpy and scipy alone, which every project brings.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

K = 20
_JUDGES = 3000  # users that choose among settings
_BLOCK = 256  # users whose scores stand in memory at once


class Fitted(Protocol):
    def recommend(self, users: np.ndarray, k: int) -> np.ndarray:
        """The k best items of each user without what it has, best first; −1 where there are fewer."""

    def save(self, folder: Path) -> None:
        """All that it needs to recommend, training pairs apart."""


Fit = Callable[[dict[str, sp.csr_matrix], dict[str, Any]], Fitted]


class ByScores:
    """A model that gives scores of users against all items."""

    def __init__(
        self, train: sp.csr_matrix, scores: Callable[[np.ndarray], np.ndarray], arrays: dict[str, Any]
    ) -> None:
        self.train, self.scores, self.arrays = train, scores, arrays

    def recommend(self, users: np.ndarray, k: int) -> np.ndarray:
        return np.vstack([self._block(users[start : start + _BLOCK], k) for start in range(0, len(users), _BLOCK)])

    def _block(self, users: np.ndarray, k: int) -> np.ndarray:
        scores = np.array(self.scores(users), dtype=np.float32)
        seen = self.train[users]
        scores[np.repeat(np.arange(len(users)), np.diff(seen.indptr)), seen.indices] = -np.inf
        best = np.argpartition(-scores, k, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        return np.take_along_axis(best, order, axis=1)

    def save(self, folder: Path) -> None:
        for name, array in self.arrays.items():
            if sp.issparse(array):
                sp.save_npz(folder / name, array.tocsr(), compressed=False)
            else:
                np.save(folder / name, array)


def load(folder: Path) -> dict[str, sp.csr_matrix]:
    """The parts of a split, by name, all of one shape."""
    pairs = {name: _read(folder / f"{name}.txt") for name in ("train", "validation", "test")}
    shape = tuple(max(int(found[side].max(initial=-1)) for found in pairs.values()) + 1 for side in (0, 1))
    return {
        name: sp.csr_matrix((np.ones(len(users), np.float32), (users, items)), shape=shape)
        for name, (users, items) in pairs.items()
    }


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    users, items = [], []
    for line in path.read_text().splitlines():
        user, *own = map(int, line.split())
        users.append(np.full(len(own), user))
        items.append(np.array(own, dtype=np.int64))
    return np.concatenate(users), np.concatenate(items)


def ndcg(ranked: np.ndarray, users: np.ndarray, truth: sp.csr_matrix) -> float:
    """NDCG@20, to choose settings by; what is reported comes from legcf's own evaluator."""
    discount = 1 / np.log2(np.arange(2, K + 2))
    total = 0.0
    for row, user in zip(ranked, users, strict=True):
        own = truth.indices[truth.indptr[user] : truth.indptr[user + 1]]
        total += float(discount[np.isin(row, own)].sum() / discount[: min(len(own), K)].sum())
    return total / max(len(users), 1)


def peak_mb() -> float:
    """Of this program alone: `getrusage` also remembers the process that started it."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


def able(truth: sp.csr_matrix) -> np.ndarray:
    return np.flatnonzero(np.diff(truth.indptr))


def main(models: dict[str, Fit]) -> None:
    folder, model, settings, out = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), Path(sys.argv[4])
    fit = models[model]
    split = load(folder)
    record: dict[str, Any] = {}
    if isinstance(settings, list):
        eval_users = able(split["validation"])[:_JUDGES]
        started = time.perf_counter()
        tried = [
            (ndcg(fit(split, one).recommend(eval_users, K), eval_users, split["validation"]), one) for one in settings
        ]
        settings = max(tried, key=lambda pair: pair[0])[1]
        record |= {"trials": len(tried), "trial_seconds": time.perf_counter() - started}
    started, before = time.perf_counter(), time.process_time()
    fitted = fit(split, settings)
    testing, testing_cpu = getattr(fitted, "testing", (0.0, 0.0))
    record["fit_seconds"] = time.perf_counter() - started - testing
    record["fit_cpu_seconds"] = time.process_time() - before - testing_cpu
    users = able(split["test"])
    fitted.recommend(users[:1], K)
    record["first_answer_seconds"] = time.time() - float(os.environ["PEERS_STARTED"]) - record.get("trial_seconds", 0.0)
    started = time.perf_counter()
    ranked = fitted.recommend(users, K)
    record["recommend_seconds"] = time.perf_counter() - started
    record["peak_mb"] = peak_mb()
    saved = out / "model"
    saved.mkdir(parents=True, exist_ok=True)
    fitted.save(saved)
    record["bytes"] = sum(path.stat().st_size for path in saved.rglob("*") if path.is_file())
    record["settings"] = settings
    record["own"], record["judged"] = getattr(fitted, "own", None), getattr(fitted, "judged", None)
    np.savez(out / "ranked.npz", users=users, items=ranked)
    (out / "record.json").write_text(json.dumps(record))
