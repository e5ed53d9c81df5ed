# SPDX-License-Identifier: Apache-2.0
"""Planted communities, where the right ranking is known: every preset runs, and LEGCF finds what popularity cannot."""

from typing import Any

import numpy as np
import pytest

from legcf.data.interactions import Dataset
from legcf.evaluation.evaluate import evaluate
from legcf.ranking.ranking import Ranking
from legcf.recommender import Recommender
from tests.helpers import COMMUNITIES, planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(120, 160)


@pytest.fixture(scope="module")
def popularity(dataset: Dataset) -> float:
    items = dataset.train.item_degrees.astype(np.float32)[:, None]
    users = np.ones((dataset.num_users, 1), np.float32)
    return evaluate(Ranking(users, items, dataset.train), dataset.test)["recall@20"]


@pytest.mark.parametrize(
    ("method", "preset", "training"),
    [
        ("legcf", "default", {}),
        ("legcf", "paper", {"learning_rate": 1e-2}),
        ("legcf", "official", {"learning_rate": 1e-2}),
        ("full", "default", {}),
        ("full", "paper", {"learning_rate": 1e-2}),
        ("full", "official", {"learning_rate": 1e-2}),
    ],
)
def test_every_preset_finds_the_communities(
    method: str, preset: str, training: dict[str, Any], dataset: Dataset, popularity: float
) -> None:
    """The first 20 places of a perfect model hold all test items of a user but those that validate."""
    options = {"c": 16, "dim": 16} if method == "legcf" else {"dim": 16}
    limits = {"epochs": 12, "batch_size": 256, "patience": 12, **training}
    fitted = Recommender(method, preset=preset, method_options=options, training=limits).fit(dataset)
    found = fitted.metrics["test"]
    assert found["recall@20"] > 2 * popularity
    assert found["recall@20"] > 0.8
    assert found["coverage@20"] > 0.9
    shown = fitted.recommend(k=10, exclude_seen=False)  # a user has all of its community, in one part or another
    own = np.mean(shown["user"].to_numpy() % COMMUNITIES == shown["item"].to_numpy() % COMMUNITIES)
    assert own > 0.9


def test_compressed_is_smaller_than_the_full_table(dataset: Dataset) -> None:
    fitted = Recommender(method_options={"c": 16, "dim": 16}, preset="paper", training={"epochs": 1}).fit(dataset)
    assert fitted.metrics["num_params"] == 16 * 16 + 2 * 280
    assert fitted.metrics["storage_bytes"] < fitted.metrics["full_table_bytes"]
