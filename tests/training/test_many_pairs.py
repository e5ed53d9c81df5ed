# SPDX-License-Identifier: Apache-2.0
"""Very many pairs: what is chosen is chosen on a sample, and the rest costs no more per pair."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from legcf.embeddings.legcf import Legcf, LegcfConfig
from legcf.evaluation.evaluate import eval_users, sample_eval_users
from legcf.factorisation import als
from legcf.training import run, sampler
from legcf.training.loop import TrainingOptions
from legcf.training.recipes import alternating
from legcf.training.registry import resolve
from tests.helpers import planted, random_interactions

MANY = 300


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (run, als, sampler, alternating):
        monkeypatch.setattr(module, "MANY_PAIRS", MANY)


@pytest.mark.usefixtures("few_are_many")
def test_settings_are_chosen_on_a_sample_and_trained_on_all(tmp_path: Path) -> None:
    dataset = planted(80, 80)
    assert dataset.train.num_pairs > MANY
    overrides = {"method": {"dim": 8, "als": {"rounds": 2}}, "training": {"epochs": 1}}
    trained = run.train(dataset, resolve("legcf", overrides=overrides), TrainingOptions(tmp_path / "run", quiet=True))
    chosen = json.loads((tmp_path / "run" / "chosen" / "metrics.json").read_text())
    assert chosen["content_hash"] != dataset.content_hash
    assert trained.metrics["content_hash"] == dataset.content_hash
    assert trained.metrics["chosen_on"]["validation"] == chosen["validation"]
    assert trained.ranking.num_users == 80


def test_a_sample_has_no_more_pairs_than_asked() -> None:
    dataset = planted(80, 80)
    some = dataset.sample(MANY, dataset.num_items, np.random.default_rng(0))
    assert MANY - 40 < some.train.num_pairs <= MANY
    assert (some.num_items, len(some.users)) == (80, some.train.num_users)
    place = dataset.users.position(some.users.values[3])
    assert np.array_equal(some.test.of(3), dataset.test.of(place))


def test_of_many_items_a_sample_has_the_popular_ones() -> None:
    dataset = planted(80, 80)
    some = dataset.sample(MANY, 30, np.random.default_rng(0))
    assert some.num_items == some.train.num_items == some.test.num_items == 30
    assert some.train.num_pairs <= MANY
    degrees = dataset.train.item_degrees
    kept = np.array([dataset.items.position(item) for item in some.items.values.tolist()])
    assert degrees[kept].min() >= np.delete(degrees, kept).max()
    user = dataset.users.position(some.users.values[3])
    shown = [item for item in dataset.train.of(user).tolist() if item in kept]
    assert kept[some.train.of(3)].tolist() == shown


@pytest.mark.usefixtures("few_are_many")
def test_settings_are_chosen_on_popular_items_and_trained_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (run, als):
        monkeypatch.setattr(module, "SAMPLE_ITEMS", 40)
    overrides = {"method": {"dim": 8, "als": {"rounds": 2}}, "training": {"epochs": 1}}
    trained = run.train(planted(80, 80), resolve("legcf", overrides=overrides), TrainingOptions(quiet=True))
    assert trained.ranking.num_items == 80


def test_a_codebook_stays_small_unless_a_budget_asks_for_more() -> None:
    users, items = 10**7, 10**6
    assert Legcf.sized(LegcfConfig(coded="items"), users, items).c == 4096
    assert Legcf.sized(LegcfConfig(coded="items", budget=10**8), users, items).c == 250_000


def test_few_judge_where_all_would_take_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = random_interactions(50, 10, 0.5, seed=0)
    assert eval_users(truth) is None
    assert sample_eval_users(truth, None, 0) is None
    home = sys.modules[eval_users.__module__]
    monkeypatch.setattr(home, "_MOST_SCORES", 100)
    monkeypatch.setattr(home, "_LEAST_USERS", 20)
    chosen = eval_users(truth)
    assert chosen is not None
    assert len(set(chosen.tolist())) == 20
    assert np.array_equal(chosen, eval_users(truth))
    fewer = eval_users(truth, 50)
    assert fewer is not None
    assert len(fewer) == 10
    monkeypatch.setattr(home, "CHOOSING_SCORES", 50)
    watching = sample_eval_users(truth, None, 0)
    assert watching is not None
    assert np.array_equal(watching, fewer)
