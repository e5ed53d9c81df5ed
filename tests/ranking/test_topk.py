# SPDX-License-Identifier: Apache-2.0
"""Full ranking: seen items never, ties to the lower number, the same in blocks as at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.data.interactions import Interactions
from legcf.ranking import topk, topk_numba, topk_numpy
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank
from tests.helpers import interactions, random_interactions


def plain(users: np.ndarray, items: np.ndarray) -> Ranking:
    """Nothing but vectors."""
    return Ranking(users, items, Interactions.empty(len(users), len(items)))


def plain_rank(users: np.ndarray, items: np.ndarray, k: int, seen: Interactions) -> list[list[int]]:
    scores = users @ items.T
    lists = []
    for user, row in enumerate(scores):
        allowed = np.setdiff1d(np.arange(len(items)), seen.of(user))
        lists.append(allowed[np.argsort(-row[allowed], kind="stable")][:k].tolist())
    return lists


@given(st.integers(0, 1000), st.integers(1, 15), st.sampled_from([0.0, 0.4, 1.0]))
def test_against_sorting_with_many_ties(seed: int, k: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    users, items = (rng.integers(-2, 3, (size, 2)).astype(np.float32) for size in (8, 11))
    users[~users.any(axis=1)] = 1  # nobody is a stranger
    seen = random_interactions(8, 11, density, seed)
    ranked, scores = rank(plain(users, items), k, seen=seen)
    assert ranked.shape == (8, min(k, 11))
    for user, wanted in enumerate(plain_rank(users, items, k, seen)):
        real = ranked[user][ranked[user] >= 0]
        assert real.tolist() == wanted
        assert np.allclose(scores[user, : len(wanted)], items[wanted] @ users[user])
        assert (ranked[user, len(wanted) :] == -1).all()
        assert np.isneginf(scores[user, len(wanted) :]).all()


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    users, items = (rng.standard_normal((size, 4)).astype(np.float32) for size in (30, 20))
    seen = random_interactions(30, 20, 0.2, seed=1)
    ranking = plain(users, items)
    whole = rank(ranking, 5, seen=seen)[0]
    monkeypatch.setattr(topk, "_BLOCK_BYTES", 7 * 20 * 4)
    assert np.array_equal(rank(ranking, 5, seen=seen)[0], whole)
    chosen = np.array([29, 3, 3])
    assert np.array_equal(rank(ranking, 5, chosen, seen)[0], whole[chosen])


def test_nobody_to_rank_for() -> None:
    ranked, scores = rank(plain(np.ones((3, 2), np.float32), np.ones((4, 2), np.float32)), 2, np.array([], np.int64))
    assert ranked.shape == scores.shape == (0, 2)


def test_a_user_who_has_seen_everything_gets_nothing() -> None:
    seen = interactions([(0, 0), (0, 1), (1, 1)], 2, 2)
    ranked, _ = rank(plain(np.ones((2, 1), np.float32), np.ones((2, 1), np.float32)), 2, seen=seen)
    assert ranked.tolist() == [[-1, -1], [0, -1]]


def test_vectors_of_any_layout() -> None:
    rng = np.random.default_rng(0)
    users, items = rng.standard_normal((6, 4)), rng.standard_normal((9, 4))
    wanted = rank(plain(users.astype(np.float32), items.astype(np.float32)), 3)[0]
    assert np.array_equal(
        rank(plain(np.asfortranarray(users.astype(np.float32)), items.astype(np.float32)[::1]), 3)[0], wanted
    )


@given(
    st.integers(0, 5), st.integers(0, 40), st.integers(0, 50), st.integers(1, 6), st.floats(0, 1), st.integers(0, 999)
)
def test_all_backends_give_the_same(users: int, items: int, k: int, levels: int, share: float, seed: int) -> None:
    """By torch, numba and numpy, with many equals among the scores: lower item numbers come first."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-levels, levels, (users, items)).astype(np.float32)
    seen = Interactions.from_pairs(*np.nonzero(rng.random((users, items)) < share), users, items)
    compiled = topk_numba.top_k(scores, k, seen)
    assert compiled[0].shape == compiled[1].shape == (users, k)
    for user in range(users):
        kept = np.setdiff1d(np.arange(items), seen.of(user))
        expected = kept[np.argsort(-scores[user, kept], kind="stable")][:k]
        found, values = topk_numpy.top_k(scores[user].copy(), k, seen.of(user))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(values, scores[user, expected])
        np.testing.assert_array_equal(compiled[0][user], np.pad(expected, (0, k - len(expected)), constant_values=-1))
        np.testing.assert_array_equal(compiled[1][user][: len(expected)], values)
    vectors = Ranking(np.concatenate([scores, np.ones((users, 1))], axis=1).astype(np.float32),
                      np.eye(items, items + 1, dtype=np.float32), seen)  # fmt: skip
    short = min(k, items)
    for by_torch, by_numba in zip(rank(vectors, k, seen=seen), compiled, strict=True):
        np.testing.assert_array_equal(by_torch, by_numba[:, :short])
