# SPDX-License-Identifier: Apache-2.0
"""Item lists: the dense product they stand for, one history at a time, many at once, and what each item adds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legcf.core.arrays import FloatArray
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from tests.helpers import random_interactions


def random_lists(num_items: int, density: float, seed: int, power: float = 0.5) -> ItemLists:
    pairs = random_interactions(num_items, num_items, density, seed)
    weights = np.random.default_rng(seed).standard_normal(pairs.num_pairs).astype(np.float32)
    return ItemLists(pairs, weights, power)


def dense(lists: ItemLists, histories: Interactions) -> FloatArray:
    matrix = np.zeros((lists.pairs.num_users, lists.pairs.num_items))
    matrix[lists.pairs.users(), lists.pairs.items] = lists.weights
    counts = np.maximum(histories.user_degrees, 1)[:, None]
    return counts**-lists.user_power * (histories.to_scipy().toarray() @ matrix)


@given(
    seed=st.integers(0, 1000), density=st.sampled_from([0.0, 0.2, 0.9]), power=st.sampled_from([0.0, 0.5, 1.0]),
)  # fmt: skip
def test_adds_the_dense_product(seed: int, density: float, power: float) -> None:
    lists = random_lists(12, density, seed, power)
    histories = random_interactions(7, 12, 0.3, seed + 1)
    wanted = dense(lists, histories)
    scores = np.ones((7, 12), dtype=np.float32)
    lists.add_for(scores, histories)
    assert np.allclose(scores - 1, wanted, atol=1e-5)
    for user in range(7):
        items = histories.of(user)
        assert np.allclose(lists.scores(items), wanted[user], atol=1e-5)
        added = np.ones(12, dtype=np.float32)
        lists.add_to(added, items)
        assert np.allclose(added - 1, wanted[user], atol=1e-5)
        targets = np.array([3, 0, 11])
        assert np.allclose(lists.parts(items, targets).sum(axis=0), wanted[user, targets], atol=1e-5)


def test_what_is_stored_is_all_that_is_needed() -> None:
    lists = random_lists(12, 0.3, 0)
    assert lists.num_entries == len(lists.weights)
