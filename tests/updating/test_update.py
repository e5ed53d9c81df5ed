# SPDX-License-Identifier: Apache-2.0
"""New pairs in a trained model: what follows from them, and what must not."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf import Recommender, UserError
from legcf.evaluation.evaluate import evaluate
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.ranking import Ranking
from legcf.updating.update import MOST_GROWTH, REWEIGH_GROWTH
from tests.helpers import COMMUNITIES
from tests.updating.conftest import ITEMS, USERS, Later, twin


def assert_same(one: Ranking, other: Ranking) -> None:
    assert np.array_equal(one.items, other.items)
    assert np.array_equal(one.users, other.users)
    assert isinstance(one.lists, ItemLists)
    assert isinstance(other.lists, ItemLists)
    assert np.array_equal(one.lists.pairs.items, other.lists.pairs.items)
    assert np.array_equal(one.lists.weights, other.lists.weights)
    assert np.array_equal(one.popularity, other.popularity)


def test_updates_in_a_row_give_what_one_gives(model: Recommender, later: Later) -> None:
    at_once = twin(model, later).update(later.both)
    assert at_once.metrics["updated"]["lists_weighed_again"]
    model.update(later.two, evaluate=False).update(later.one)
    assert model.users.values.tolist() == at_once.users.values.tolist()
    assert model.items.values.tolist() == at_once.items.values.tolist()
    assert_same(model.ranking, at_once.ranking)
    model.update(later.both)  # the same pairs once more
    assert_same(model.ranking, at_once.ranking)


def test_new_users_and_items_take_part(model: Recommender, later: Later) -> None:
    model.update(later.both)
    assert model.metrics["updated"]["new_items"] == 20
    assert model.metrics["updated"]["new_users"] == 30
    frame = model.recommend(list(range(USERS, 150)), k=10)  # new users, who have half of their community's items
    own = frame["user"].to_numpy() % COMMUNITIES == frame["item"].to_numpy() % COMMUNITIES
    assert own.mean() > 0.9
    assert frame["fallback"].null_count() == frame.height
    assert (frame["item"] >= ITEMS).sum() > 20  # new items are recommended
    assert (model.recommend(list(range(USERS)), k=3)["item"] >= ITEMS).sum() > 20  # to known users as well
    assert model.ranking.popularity.tolist() == model.ranking.histories.item_degrees.tolist()


def test_as_good_as_training_on_everything(model: Recommender, later: Later) -> None:
    model.update(later.both)
    hidden = later.whole.test
    updated = evaluate(model.ranking, hidden, (20,))
    assert updated["recall@20"] > 0.95  # a perfect model has 1
    assert not model.metrics["updated"]["retrain"] or model.metrics["updated"]["growth"] >= 0.5


def test_an_updated_run_is_saved_and_loaded(model: Recommender, later: Later, tmp_path: Path) -> None:
    model.update(later.one).save(tmp_path / "run")
    loaded = Recommender.load(tmp_path / "run")
    assert_same(loaded.ranking, model.ranking)
    assert loaded.trained.base is not None
    known = loaded.update(later.two).metrics["updated"]  # nothing to judge by: it was never in a file
    model.update(later.two, evaluate=False)
    assert known == model.metrics["updated"]
    assert_same(loaded.ranking, model.ranking)


def test_lists_are_weighed_again_where_much_has_come(
    model: Recommender, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = twin(model, later).update(later.one[:20])
    assert few.metrics["updated"]["growth"] < REWEIGH_GROWTH
    assert not few.metrics["updated"]["lists_weighed_again"]
    weight = model.config.ranking.list_weight
    assert few.trained.config.ranking.list_weight == weight
    model.update(later.both)
    assert model.metrics["updated"]["lists_weighed_again"]
    monkeypatch.setattr("legcf.updating.update.REWEIGH_GROWTH", 100.0)
    as_before = twin(few, later).update(later.both)
    assert as_before.trained.config.ranking.list_weight == weight
    chosen, kept = (one.metrics["validation"]["ndcg@20"] for one in (model, as_before))
    assert chosen >= kept * 0.999  # the weight from before is among those tried


def test_held_out_pairs_that_come_are_held_out_no_more(model: Recommender, later: Later) -> None:
    test = later.first.test
    some = pl.DataFrame({"user": test.users()[:40], "item": test.items[:40]})
    model.update(some)
    assert model.dataset().test.num_pairs == test.num_pairs - 40
    assert model.metrics["updated"]["pairs"] == 40
    assert 0 < model.evaluate("test")["recall@20"] <= 1


def test_little_news_leave_most_as_it_is(model: Recommender, later: Later) -> None:
    before = model.ranking.items.copy()
    model.update(pl.DataFrame({"user": [3], "item": [later.first.test.of(3)[0]]}))
    after = model.ranking.items
    same = np.isclose(before, after, rtol=0.05, atol=1e-3).all(axis=1)  # a table's scales are relative to the largest
    assert model.metrics["updated"]["solved_items"] < 10
    assert same.sum() >= ITEMS - model.metrics["updated"]["solved_items"]


def test_drift_and_growth_ask_for_training(model: Recommender, later: Later, monkeypatch: pytest.MonkeyPatch) -> None:
    some = Recommender.of(model.trained).update(later.one[:20]).metrics["updated"]
    assert not some["retrain"]
    assert some["validation_ratio"] is None
    much = model.update(later.both).metrics["updated"]
    assert much["growth"] >= MOST_GROWTH
    assert much["retrain"]
    monkeypatch.setattr("legcf.updating.update.LEAST_RATIO", 2.0)
    again = Recommender.of(model.trained.base)
    again._first = later.first
    fallen = again.update(later.one[:20]).metrics["updated"]
    assert 0.5 < fallen["validation_ratio"] < 2
    assert fallen["retrain"]


def test_nothing_is_measured_where_that_is_not_wanted(model: Recommender, later: Later) -> None:
    quick = model.update(later.both, evaluate=False)
    assert quick.metrics["test"] == quick.metrics["validation"] == {}
    assert quick.metrics["updated"]["validation_ratio"] is None
    assert not quick.metrics["updated"]["lists_weighed_again"]
    assert quick.evaluate()["recall@20"] > 0


def test_ids_of_two_kinds_become_text(model: Recommender) -> None:
    model.update(pl.DataFrame({"user": ["3", "anna"], "item": ["5", "shoe"]}))
    assert model.users.find("anna") == USERS
    assert model.items.values.tolist()[-1] == "shoe"
    assert model.recommend("3", k=2).height == 2
    assert model.metrics["updated"]["new_users"] == 1


def test_models_of_another_kind_are_refused(later: Later) -> None:
    other = Recommender(
        preset="graph-free", method_options={"c": 8, "dim": 8}, training={"epochs": 1, "threads": 1}
    ).fit(later.first)
    with pytest.raises(UserError, match="cannot be updated"):
        other.update(later.one)
    with pytest.raises(UserError, match="not been fitted"):
        Recommender().update(later.one)


def test_a_share_is_a_share(model: Recommender, later: Later) -> None:
    with pytest.raises(UserError, match="from 0 to 1"):
        model.update(later.one, threshold=2)


def test_stored_precision_is_kept(model: Recommender, later: Later) -> None:
    ranking = model.update(later.both).ranking
    assert ranking.rows is not None
    assert np.array_equal(ranking.rows.vectors(slice(None)), ranking.items)
    assert isinstance(ranking.lists, ItemLists)
    assert len(np.unique(ranking.lists.weights)) <= 2**model.config.ranking.list_bits
