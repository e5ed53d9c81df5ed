# SPDX-License-Identifier: Apache-2.0
"""Settings of item lists: the defaults, unless something else is clearly better."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from legcf.core.arrays import inverse_power
from legcf.core.config import RankingConfig
from legcf.ranking import selection_policy
from legcf.ranking.item_lists.recipe import ListFitter, candidate_count
from legcf.ranking.item_lists.ridge import find_candidates, solve, sparse_gram, whole_gram
from legcf.ranking.ranking import Ranking
from tests.helpers import planted, random_interactions


@pytest.mark.parametrize(("gain", "best_weight", "ridge"), [(1.005, 1.0, 1.0), (1.04, 1.0, 4.0), (1.04, 0.25, 1.0)])
def test_another_ridge_is_for_heavy_lists_and_has_to_be_clearly_better(
    gain: float, best_weight: float, ridge: float
) -> None:
    train = planted(40, 30).train
    rng = np.random.default_rng(0)
    vectors = [rng.standard_normal((count, 4)).astype(np.float32) for count in (train.num_users, train.num_items)]

    def judge(ranking: Ranking, facts: dict[str, Any]) -> float:
        return 0.1 * gain ** int(facts["ridge"] == 4.0) - 1e-6 * abs(facts["weight"] - best_weight)

    fitter = ListFitter(train)
    found = fitter.settings(Ranking(*vectors, train), RankingConfig(lists=4), judge, 4 * train.num_items)
    assert (found.list_ridge, found.list_user_power, found.list_power) == (ridge, 0.5, 0.0)
    assert found.list_weight == best_weight


def test_room_for_more_than_all_candidates_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection_policy, "SMALL", replace(selection_policy.SMALL, list_candidates=4))
    train = planted(80, 30, seed=1).train
    fitter, config = ListFitter(train), RankingConfig(lists=4)
    assert fitter.lists(config, 3 * train.num_items).num_entries == 3 * train.num_items
    assert fitter.lists(config, 6 * train.num_items).num_entries == 6 * train.num_items


def test_ridges_go_on_while_the_largest_is_best() -> None:
    train = planted(40, 30).train
    rng = np.random.default_rng(0)
    vectors = [rng.standard_normal((count, 4)).astype(np.float32) for count in (train.num_users, train.num_items)]

    def judge(ranking: Ranking, facts: dict[str, Any]) -> float:
        return float(min(facts["ridge"], 64.0)) - 1e-6 * abs(facts["weight"] - 1.0)

    found = ListFitter(train).settings(Ranking(*vectors, train), RankingConfig(lists=4), judge, 4 * train.num_items)
    assert found.list_ridge == 64.0


def test_the_whole_of_g_is_the_same_from_its_pairs_and_solves_the_same() -> None:
    train = planted(80, 60, seed=1).train
    weights = inverse_power(train.user_degrees, 0.5).astype(np.float32)
    np.testing.assert_allclose(sparse_gram(train, 0.5), whole_gram(train, weights), rtol=1e-5, atol=1e-6)
    by_item = train.transposed()
    candidates = find_candidates(train, 10, by_item)
    one, other = (solve(train, candidates, (1.0,), 0.5, by_item, gram) for gram in (None, sparse_gram(train, 0.5)))
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-3, atol=1e-5)


def test_weights_are_the_same_where_no_gains_are_asked_for() -> None:
    train = planted(80, 60, seed=1).train
    by_item = train.transposed()
    candidates = find_candidates(train, 10, by_item)
    one, other = (solve(train, candidates, (1.0,), 0.5, by_item, explains=explains) for explains in (True, False))
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.gains.all()
    assert not other.gains.any()


def test_an_item_has_fewer_candidates_where_a_file_holds_few_entries_or_pairs_are_few() -> None:
    few, many = (random_interactions(100, 60, share, seed=0) for share in (0.07, 0.5))
    assert [candidate_count(many, size) for size in (1_000, 6_000, 60_000, None)] == [64, 100, 200, 200]
    assert [candidate_count(few, size) for size in (1_000, 6_000, None)] == [64, 10 * few.num_pairs // 60, 200]
