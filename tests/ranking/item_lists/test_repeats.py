# SPDX-License-Identifier: Apache-2.0
"""Items that recommend themselves: own items compete by how often they were taken, within the bytes that lists had."""

from dataclasses import replace

import numpy as np

from legcf.data.interactions import Interactions
from legcf.evaluation.weights import choose_repeat_weight
from legcf.ranking.item_lists.repeats import with_repeats
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank
from tests.helpers import random_interactions
from tests.ranking.item_lists.test_lists import random_lists


def _ranking() -> Ranking:
    rng = np.random.default_rng(0)
    pairs = random_interactions(30, 20, 0.3, 1)
    histories = replace(pairs, weights=rng.integers(1, 9, pairs.num_pairs).astype(np.float32))
    vectors = rng.standard_normal((50, 4)).astype(np.float32)
    return Ranking(vectors[:30], vectors[30:], histories)


def test_own_items_gain_by_their_weight() -> None:
    ranking = _ranking()
    repeated = with_repeats(ranking, 1e4, 0.0)
    assert repeated.hidden.num_pairs == 0
    ranked = rank(repeated, 20, seen=repeated.hidden)[0]
    for user in range(30):
        own, first = ranking.histories.of(user), ranked[user]
        assert set(first[: len(own)].tolist()) == set(own.tolist())
        weights = dict(zip(own.tolist(), ranking.histories.relative_of(user).tolist(), strict=True))  # type: ignore[union-attr]
        gained = [weights[item] for item in first[: len(own)].tolist()]
        assert gained == sorted(gained, reverse=True)


def test_lists_stay_beside_it_and_can_be_had_without() -> None:
    lists = random_lists(20, 0.3, 3).without_repeats()
    repeated = lists.with_repeats(0.5)
    assert repeated.num_entries == lists.num_entries + 20
    assert repeated.repeat_weight == 0.5
    assert repeated.with_repeats(2.0).repeat_weight == 2.0
    assert np.array_equal(repeated.without_repeats().weights, lists.weights)
    assert np.array_equal(repeated.without_repeats().pairs.items, lists.pairs.items)
    bytes_before = lists.storage_bytes()
    kept = with_repeats(replace(_ranking(), lists=lists), 1.0, 0.0, bytes_before).lists
    assert kept is not None
    assert kept.storage_bytes() <= bytes_before
    assert kept.repeat_weight > 0


def test_the_weight_is_chosen_by_what_is_taken_next() -> None:
    ranking = _ranking()
    again, others = ranking.histories, random_interactions(30, 20, 0.3, 2).without(ranking.histories)

    def chosen(truth: Interactions) -> float:
        return choose_repeat_weight(lambda weight: with_repeats(ranking, weight, 0.0), truth, 0)

    assert chosen(replace(again, weights=None)) > 1 > chosen(others)
