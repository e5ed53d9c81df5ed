# SPDX-License-Identifier: Apache-2.0
"""The file that a run answers from: the same items and scores as the run itself gives."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legcf.export.answers
from legcf.data.interactions import Dataset
from legcf.export.answers import answer_model
from legcf.recommender import Recommender
from legcf.scoring.listing import list_recommendations
from legcf.scoring.run_files import ANSWERS, open_answers
from tests.helpers import planted

SETTINGS: dict[str, dict[str, Any]] = {
    "popularity": {"method": "popularity"},
    "item-knn": {"method": "item-knn"},
    "ease": {"method": "ease"},
    "als": {"method": "als", "method_options": {"dim": 8}},
    "fast": {"preset": "fast", "method_options": {"c": 12}},
    "bits": {"preset": "fast", "method_options": {"c": 12}, "ranking": {"bits": 4}},
    "unrounded": {"preset": "items-only", "method_options": {"c": 12, "dim": 8}, "training": {"epochs": 1}},
    "graph": {"preset": "graph", "method_options": {"c": 12, "dim": 8}, "training": {"epochs": 1}},
    "norms": {"method": "full", "method_options": {"dim": 8}, "training": {"epochs": 1}},
}


def with_titles_and_a_stranger() -> Dataset:
    """A user without training pairs, and items with names."""
    dataset = planted(60, 60)
    alone = dataset.train.users() != 7
    titles = [f"Item {item}" for item in range(60)]
    return replace(dataset, train=dataset.train.subset(alone), titles=titles)


@pytest.mark.parametrize("name", SETTINGS)
def test_it_gives_the_items_and_scores_of_the_run(name: str, tmp_path: Path) -> None:
    model = Recommender(**SETTINGS[name]).fit(with_titles_and_a_stranger())
    model.save(tmp_path)
    scorer = open_answers(tmp_path)
    assert scorer is not None
    for users in (None, [str(user) for user in (3, 7, 59)]):
        expected = model.recommend(users, k=15).to_dict(as_series=False)
        found = list_recommendations(scorer, users, 15)
        assert list(found) == list(expected)
        assert np.allclose(found["score"], expected["score"], rtol=1e-4, atol=1e-4)
        for column in ("user", "rank", "fallback"):
            assert found[column] == expected[column], column
        same = np.array(found["item"]) == np.array(expected["item"])
        ties = np.array(found["score"])[~same], np.array(expected["score"])[~same]
        assert np.allclose(*ties, rtol=1e-4, atol=1e-4)  # only equals may change their order
        assert same.mean() > 0.95


def test_weights_of_pairs_are_kept(tmp_path: Path) -> None:
    dataset = planted(60, 60)
    rng = np.random.default_rng(3)
    weights = rng.lognormal(size=dataset.train.num_pairs).astype(np.float32)
    model = Recommender(preset="fast", method_options={"c": 12}).fit(
        replace(dataset, train=replace(dataset.train, weights=weights))
    )
    model.save(tmp_path)
    scorer = open_answers(tmp_path)
    assert scorer is not None
    found, expected = list_recommendations(scorer, ["3"], 15), model.recommend("3", k=15)
    assert np.allclose(found["score"], expected["score"], rtol=1e-3, atol=1e-4)


def test_what_would_be_too_large_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Recommender("als", method_options={"dim": 8}).fit(planted(40, 40))
    model.save(tmp_path)
    assert (tmp_path / ANSWERS).exists()
    monkeypatch.setattr(legcf.export.answers, "_MOST_BYTES", 1000)
    assert answer_model(model.trained) is None
    model.save(tmp_path)
    assert not (tmp_path / ANSWERS).exists()
    assert open_answers(tmp_path) is None
