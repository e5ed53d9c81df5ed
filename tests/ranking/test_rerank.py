# SPDX-License-Identifier: Apache-2.0
"""Ranking the same vectors again with other lists: what `rank` gives, whatever lists move."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.data.interactions import Interactions
from legcf.ranking import rerank
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.ranking import Ranking
from legcf.ranking.rerank import Reranker
from legcf.ranking.topk import rank
from tests.helpers import random_interactions

USERS, ITEMS = 12, 40


def lists_of(density: float, seed: int) -> ItemLists:
    pairs = random_interactions(ITEMS, ITEMS, density, seed)
    weights = np.random.default_rng(seed).integers(-4, 9, pairs.num_pairs).astype(np.float32) / 4
    return ItemLists(pairs, weights, user_power=0.0)


def ranking_of(seed: int, density: float) -> Ranking:
    """Of small whole numbers, so that sums are exact and ties many; the last user is a stranger."""
    rng = np.random.default_rng(seed)
    users, items = (rng.integers(-2, 3, (size, 3)).astype(np.float32) for size in (USERS, ITEMS))
    users[-1] = 0
    return Ranking(users, items, random_interactions(USERS, ITEMS, density, seed))


@given(
    st.integers(0, 1000), st.integers(1, 50), st.sampled_from([0.0, 0.1, 0.6]), st.sampled_from([0.0, 0.05, 0.5]),
    st.sampled_from([1, 8, 100]),
)  # fmt: skip
def test_again_with_other_lists(seed: int, k: int, seen: float, density: float, kept: int) -> None:
    """However few of the best are kept at hand, and whether lists move nothing, little or nearly all."""
    ranking, ranker = ranking_of(seed, seen), Reranker()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rerank, "_KEPT", kept)
        for again in range(4):
            listed = replace(ranking, lists=lists_of(density, seed + again))
            wanted = rank(listed, k, None, ranking.histories)
            found = ranker(listed, k, None, ranking.histories)
            assert np.array_equal(found[0], wanted[0])
            assert np.array_equal(found[1], wanted[1])


@pytest.fixture(autouse=True, scope="module")
def any_share_may_move() -> Iterator[None]:
    """Lists move much of so few items."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rerank, "_MOVED_PART", 0)
        yield


def test_other_vectors_users_or_lengths_start_anew() -> None:
    ranker, ranking = Reranker(), replace(ranking_of(1, 0.1), lists=lists_of(0.1, 2))
    some = np.array([7, 2, 5])
    for _ in range(3):
        for one, k, users in ((ranking, 5, None), (ranking, 5, some), (ranking, 9, some)):
            found = ranker(one, k, users, one.histories)
            assert np.array_equal(found[0], rank(one, k, users, one.histories)[0])
        other = replace(ranking, items=-ranking.items)
        for _ in range(3):
            assert np.array_equal(ranker(other, 5, some, one.histories)[0], rank(other, 5, some, one.histories)[0])


def test_pairs_of_unlike_weight_count_as_much_as_they_weigh() -> None:
    ranking = ranking_of(3, 0.2)
    pairs = ranking.histories
    weighed = Interactions(pairs.indptr, pairs.items, ITEMS, np.tile([0.5, 2.0], pairs.num_pairs)[: pairs.num_pairs])
    ranker = Reranker()
    for _ in range(3):
        listed = replace(ranking, histories=weighed, lists=lists_of(0.1, 4))
        wanted = rank(listed, 6, None, weighed)
        found = ranker(listed, 6, None, weighed)
        assert np.array_equal(found[0], wanted[0])
        assert np.allclose(found[1], wanted[1], atol=1e-5)
