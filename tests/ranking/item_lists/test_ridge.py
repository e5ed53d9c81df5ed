# SPDX-License-Identifier: Apache-2.0
"""Lists in closed form against the dense systems they solve, on sparse and on dense catalogues."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.data.interactions import Interactions
from legcf.ranking.item_lists import ridge
from legcf.ranking.item_lists.ridge import find_candidates, solve, strongest
from tests.helpers import graphs, random_interactions


def dense_gram(train: Interactions, power: float) -> np.ndarray:
    pairs = train.to_scipy().toarray().astype(np.float64)
    weights = np.where(train.user_degrees > 0, np.maximum(train.user_degrees, 1.0) ** -power, 0.0)
    return pairs.T @ (weights[:, None] * pairs)


def go_by(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of G, the users of candidates, or rows of G that are walked to, a few systems at a time."""
    monkeypatch.setattr(ridge, "_DENSE_BYTES", 2**28 if way == "whole" else 0)
    monkeypatch.setattr(ridge, "_walks_less", lambda *_: way == "rows")
    monkeypatch.setattr(ridge, "_SYSTEM_BYTES", 4 * 8 * 7 * 10)


@pytest.mark.parametrize("way", ["whole", "users", "rows"])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_weights_solve_the_dense_systems(
    way: str, power: float, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_by(way, monkeypatch)
    train = random_interactions(60, 25, 0.25, 3)
    by_item = train.transposed()
    candidates = find_candidates(train, 7, by_item)
    solved = solve(train, candidates, (0.3, 2.0), power, by_item, dropout=dropout)
    gram = dense_gram(train, power)
    unit = np.trace(gram) / 25
    for item in range(25):
        chosen = candidates.of(item)
        own = slice(candidates.indptr[item], candidates.indptr[item + 1])
        for place, strength in enumerate((0.3, 2.0)):
            system = gram[np.ix_(chosen, chosen)] + strength * unit * np.eye(len(chosen))
            system += dropout / (1 - dropout) * np.diag(gram[chosen, chosen])
            wanted = np.linalg.solve(system, gram[chosen, item])
            np.testing.assert_allclose(solved.weights[place, own], wanted, rtol=1e-3, atol=1e-5)
            gains = wanted**2 / np.diag(np.linalg.inv(system))
            np.testing.assert_allclose(solved.gains[place, own], gains, rtol=1e-2, atol=1e-6)


def test_rows_are_walked_to_where_users_have_much_in_common() -> None:
    """Forty users with all of thirty items, or four hundred with two each."""

    def walks(train: Interactions) -> bool:
        by_item = train.transposed()
        candidates = find_candidates(train, 16, by_item)
        return ridge._walks_less(train, by_item, candidates, np.arange(train.num_items), train.num_items)

    assert walks(random_interactions(400, 30, 0.9, 1))
    assert not walks(random_interactions(400, 300, 0.006, 1))


@given(train=graphs(), count=st.integers(1, 8))
def test_candidates_are_the_largest_of_the_filter(train: Interactions, count: int) -> None:
    found = find_candidates(train, count, train.transposed())
    pairs = train.to_scipy().toarray().astype(np.float64)
    users = np.where(train.user_degrees > 0, 1 / np.maximum(train.user_degrees, 1), 0)
    items = np.where(train.item_degrees > 0, np.maximum(train.item_degrees, 1.0) ** -0.5, 0)
    together = (pairs.T @ (users[:, None] * pairs)) * items
    np.fill_diagonal(together, 0)
    for item in range(train.num_items):
        chosen = found.of(item)
        assert item not in chosen
        assert (np.diff(chosen) > 0).all()
        left = np.setdiff1d(np.flatnonzero(together[item]), chosen)
        if len(left):
            assert together[item, left].max() <= together[item, chosen].min() + 1e-6
        assert len(chosen) == min(count, np.count_nonzero(together[item]), max(train.num_items - 1, 1))


def test_lists_are_by_the_item_of_the_history() -> None:
    train = random_interactions(40, 15, 0.3, 1)
    by_item = train.transposed()
    solved = solve(train, find_candidates(train, 5, by_item), (1.0,), 0.5, by_item)
    lists = solved.lists(0, user_power=0.0)
    dense = np.zeros((15, 15))
    dense[lists.pairs.users(), lists.pairs.items] = lists.weights
    columns = np.zeros((15, 15))
    columns[solved.candidates.items, solved.candidates.users()] = solved.weights[0]
    np.testing.assert_array_equal(dense, columns)


def test_the_strongest_stay() -> None:
    candidates = random_interactions(10, 10, 0.5, 2)
    gains = np.random.default_rng(0).random(candidates.num_pairs).astype(np.float32)
    kept = candidates.subset(strongest(gains, 12))
    assert kept.num_pairs == 12
    keys = candidates.users() * 10 + candidates.items
    wanted = keys[np.argsort(-gains)[:12]]
    assert set((kept.users() * 10 + kept.items).tolist()) == set(wanted.tolist())
    assert strongest(gains, 10**6).all()
