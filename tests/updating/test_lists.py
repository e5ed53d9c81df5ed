# SPDX-License-Identifier: Apache-2.0
"""Lists of changed items beside those that stay."""

import numpy as np
import pytest

from legcf.core.config import RankingConfig
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.item_lists.ridge import find_candidates, solve
from legcf.updating.lists import renewed_lists
from tests.helpers import random_interactions

SETTINGS = RankingConfig(list_ridge=2.0)


def test_candidates_of_some_items_are_those_among_all() -> None:
    train = random_interactions(60, 40, 0.1, seed=1)
    by_item = train.transposed()
    whole = find_candidates(train, 5, by_item)
    some = find_candidates(train, 5, by_item, np.array([3, 17]))
    assert some.of(3).tolist() == whole.of(3).tolist()
    assert some.of(17).tolist() == whole.of(17).tolist()
    assert some.num_pairs == len(whole.of(3)) + len(whole.of(17))


def test_others_stay_and_changed_ones_are_those_of_a_solution() -> None:
    train = random_interactions(60, 40, 0.1, seed=2)
    by_item = train.transposed()
    solved = solve(train, find_candidates(train, 39, by_item), (2.0,), 0.5, by_item).lists(0, 0.0).scaled(3.0)
    changed = np.zeros(40, dtype=np.bool_)
    changed[[4, 9]] = True
    same = renewed_lists(solved, train, changed, SETTINGS, 10**6)
    assert np.array_equal(same.pairs.items, solved.pairs.items)
    assert np.allclose(same.weights, solved.weights, atol=1e-5)


def test_no_more_entries_than_there_is_room_for() -> None:
    train = random_interactions(60, 40, 0.1, seed=3)
    by_item = train.transposed()
    lists = solve(train, find_candidates(train, 8, by_item), (2.0,), 0.5, by_item).lists(0, 0.0)
    changed = np.zeros(40, dtype=np.bool_)
    changed[:20] = True
    for room in (300, 100, 20):
        assert renewed_lists(lists, train, changed, SETTINGS, room).num_entries <= room


@pytest.mark.parametrize("candidates", [None, 6])
def test_an_update_of_everything_makes_the_lists_of_a_training(candidates: int | None) -> None:
    """With as many candidates as are configured, and weights solved again only where none are."""
    train = random_interactions(60, 40, 0.15, seed=4)
    settings = RankingConfig(list_ridge=2.0, list_candidates=candidates, list_bits=8)
    trained = ListFitter(train).lists(settings, 150).scaled(2.0)
    renewed = renewed_lists(trained, train, np.ones(40, dtype=np.bool_), settings, 150)
    assert np.array_equal(renewed.pairs.indptr, trained.pairs.indptr)
    assert np.array_equal(renewed.pairs.items, trained.pairs.items)
    assert np.allclose(renewed.weights, trained.weights, rtol=0.02, atol=1e-3)
