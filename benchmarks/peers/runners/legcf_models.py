# SPDX-License-Identifier: Apache-2.0
"""Our own methods, ranked from the file that they are served from."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import main

from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.export.build import build
from legcf.export.options import ExportOptions
from legcf.modelfile.served_model import ServedModel
from legcf.recommender import Recommender
from legcf.scoring.scorer import Request, Scorer
from legcf.training import run


def as_interactions(part: sp.csr_matrix) -> Interactions:
    pairs = part.tocoo()
    return Interactions.from_pairs(pairs.row, pairs.col, *part.shape)


def as_dataset(split: dict[str, sp.csr_matrix]) -> Dataset:
    users, items = split["train"].shape
    parts = (as_interactions(split[name]) for name in ("train", "validation", "test"))
    return Dataset("split", "legcf", IdMap.consecutive(users, "user"), IdMap.consecutive(items, "item"), *parts)


class TestingClock:
    """How long the test of a finished model takes within `fit`: it is no part of fitting."""

    seconds = cpu_seconds = 0.0

    def __enter__(self) -> "TestingClock":
        self._assess = run.assess

        def timed(*given: Any) -> dict[str, Any]:
            started, before = time.perf_counter(), time.process_time()
            found = self._assess(*given)
            self.seconds += time.perf_counter() - started
            self.cpu_seconds += time.process_time() - before
            return found

        run.assess = timed
        return self

    def __exit__(self, *error: object) -> None:
        run.assess = self._assess


class Model:
    def __init__(self, method: str, preset: str, split: dict[str, sp.csr_matrix], settings: dict[str, Any]) -> None:
        dataset = as_dataset(split)
        with TestingClock() as clock:
            trained = Recommender(method, preset=preset, **settings).fit(dataset).trained
        self.testing = clock.seconds, clock.cpu_seconds
        tried = [line["search"] for line in trained.curve if "search" in line]
        self.judged = {"settings": len(tried), "vectors": len({one["start"] for one in tried if "start" in one})}
        # A user is known by the training pairs alone, as with the others.
        self.trained = replace(trained, known=trained.ranking.histories)

    @cached_property
    def scorer(self) -> Scorer:
        """From the file, which is made for the first list: writing a model down is part of nobody's fit."""
        with tempfile.NamedTemporaryFile(suffix=".legcf") as file:
            self.served(keep_history=True).save(Path(file.name))
            return Scorer.load(Path(file.name))

    def served(self, keep_history: bool) -> ServedModel:
        """Users with vectors of their own are served as they are; codes are for those who choose them."""
        form = {"format": "full", "dtype": "float32"} if self.trained.ranking.pooling is None else {}
        return build(self.trained, ExportOptions(history=keep_history, **form))

    def recommend(self, users: np.ndarray, k: int) -> np.ndarray:
        if len(users) == 1:
            found = self.scorer.recommend(Request(user=int(users[0]), k=k))
            return np.array([[int(entry.id) for entry in found]])
        return self.scorer.recommend_all(k)[0][users]

    def save(self, folder: Path) -> None:
        """Without histories: the others' files hold no training pairs either."""
        self.served(keep_history=False).save(folder / "model.legcf")


def of(method: str, preset: str = "default") -> Callable[[dict[str, sp.csr_matrix], dict[str, Any]], Model]:
    return lambda split, settings: Model(method, preset, split, settings)


if __name__ == "__main__":
    baselines = {name: of(name) for name in ("popularity", "item-knn", "ease", "als")}
    main({"default": of("legcf"), "fast": of("legcf", "fast"), **baselines})
