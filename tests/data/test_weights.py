# SPDX-License-Identifier: Apache-2.0
"""What pairs count: columns of weights, half-lives, and what follows from them."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.data.source import DataOptions, load_data
from legcf.factorisation.als import AlsSettings, confidences
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.ridge import find_candidates, solve
from legcf.ranking.tables.pooling import Pooling
from legcf.recommender import Recommender
from tests.helpers import random_interactions
from tests.ranking.item_lists.test_ridge import go_by

DAY = 86_400
LOG = pl.DataFrame(
    {
        "user": ["a", "a", "a", "b", "b", "c"],
        "item": ["x", "y", "x", "x", "z", "z"],
        "plays": [1, 2, 3, 4, 5, 6],
        "time": [1_700_000_000 + day * DAY for day in (0, 30, 60, 60, 0, 60)],
    }
)


def weights_of(dataset_pairs: Interactions) -> list[float]:
    assert dataset_pairs.weights is not None
    return [round(float(weight), 4) for weight in dataset_pairs.weights]


def test_a_column_of_weights_adds_up() -> None:
    known = load_data(LOG, DataOptions(weight_col="plays")).known
    assert known.items.tolist() == [0, 1, 0, 2, 2]
    assert weights_of(known) == [4, 2, 4, 5, 6]


@pytest.mark.parametrize("scale", [1, 1000])
def test_a_half_life_halves(scale: int) -> None:
    log = LOG.with_columns(pl.col("time") * scale)
    dataset = load_data(log, DataOptions(half_life="30d"))
    assert weights_of(dataset.known) == [1.25, 0.5, 1, 0.25, 1]
    assert dataset.weighed_at == pytest.approx(1_700_000_000 + 60 * DAY)
    both = load_data(log, DataOptions(half_life="30d", weight_col="plays"))
    assert weights_of(both.known) == [3.25, 1, 4, 1.25, 6]


def test_dates_and_files(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,date\n1,1,2024-01-01\n1,2,2024-01-08\n2,2,2024-01-15\n")
    assert weights_of(load_data(path, DataOptions(half_life="1w")).known) == [0.25, 0.5, 1]


@pytest.mark.parametrize("repeat", ["allow", "exclude"])
@pytest.mark.parametrize("protocol", ["ratio", "leave-last-out", "temporal"])
@pytest.mark.parametrize("half_life", [None, "5d"])
def test_the_order_of_rows_changes_nothing(repeat: Any, protocol: str, half_life: str | None) -> None:
    """Sums of weights and splits of rows are the same however the rows come: in a file, or from many threads."""
    rng, size = np.random.default_rng(7), 3_000
    log = pl.DataFrame(
        {
            "user": rng.integers(0, 5, size),
            "item": rng.integers(0, 8, size),
            "plays": 10 ** rng.uniform(-4, 4, size),
            "time": 1_700_000_000 + rng.integers(0, 9, size) * DAY,
        }
    )
    options = DataOptions(weight_col="plays", repeat=repeat, protocol=protocol, half_life=half_life)
    hashes = {load_data(log.sample(fraction=1, shuffle=True, seed=seed), options).content_hash for seed in range(3)}
    assert hashes == {load_data(log, options).content_hash}


def test_what_cannot_be_weighed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="positive number"):
        load_data(LOG.with_columns(plays=pl.lit(0)), DataOptions(weight_col="plays"))
    with pytest.raises(UserError, match="no column 'nothing'"):
        load_data(LOG, DataOptions(weight_col="nothing"))
    with pytest.raises(UserError, match="plain numbers"):
        load_data(LOG.with_columns(time=pl.int_range(6)), DataOptions(half_life="30d"))
    with pytest.raises(UserError, match="has no time column"):
        load_data(LOG.drop("time"), DataOptions(half_life="30d"))
    with pytest.raises(ValueError, match="30d"):
        DataOptions(half_life="a month")


def test_weights_follow_their_pairs() -> None:
    pairs = Interactions.from_pairs(
        np.array([1, 0, 1, 1]), np.array([2, 1, 0, 2]), 2, 3, np.array([1, 2, 3, 4], dtype=np.float32)
    )
    assert weights_of(pairs) == [2, 3, 5]
    assert weights_of(pairs.transposed()) == [3, 2, 5]
    assert weights_of(pairs.of_users(np.array([1]))) == [3, 5]
    assert weights_of(pairs.subset(np.array([True, False, True]))) == [2, 5]
    assert pairs.relative_weights is not None
    assert pairs.relative_weights.tolist() == pytest.approx([1, 0.75, 1.25])
    plain = Interactions.from_pairs(np.array([0]), np.array([0]), 2, 3)
    assert weights_of(pairs.joined(plain)) == pytest.approx([10 / 3, 2, 3, 5], abs=1e-3)
    assert pairs.digest() != Interactions(pairs.indptr, pairs.items, 3).digest()


def weighed(pairs: Interactions, seed: int = 0) -> Interactions:
    weights = np.random.default_rng(seed).uniform(0.2, 3, pairs.num_pairs).astype(np.float32)
    return Interactions(pairs.indptr, pairs.items, pairs.num_items, weights)


@pytest.mark.parametrize("way", ["whole", "users", "rows"])
def test_lists_are_solved_by_weights(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against numpy, by the whole of G, by users of candidates and by rows that are walked to."""
    go_by(way, monkeypatch)
    train = weighed(random_interactions(30, 12, 0.3, seed=4))
    by_item = train.transposed()
    candidates = find_candidates(train, 11, by_item)
    solved = solve(train, candidates, (2.0,), 0.5, by_item)
    assert train.weights is not None
    matrix = np.sqrt(train.to_scipy().toarray().astype(np.float64))
    gram = matrix.T @ (matrix * np.maximum(train.user_degrees, 1)[:, None] ** -0.5)
    ridge = 2.0 * np.diag(gram).sum() / 12
    for item in range(12):
        own = candidates.of(item)
        wanted = np.linalg.solve(gram[np.ix_(own, own)] + ridge * np.eye(len(own)), gram[own, item])
        found = solved.weights[0, candidates.indptr[item] : candidates.indptr[item + 1]]
        assert np.allclose(found, wanted, atol=1e-4)


def test_users_and_factors_go_by_weights() -> None:
    train = weighed(random_interactions(20, 10, 0.4, seed=5))
    relative = train.relative_weights
    assert relative is not None
    vectors = np.random.default_rng(1).standard_normal((10, 3)).astype(np.float32)
    pooling = Pooling(0.5, 0.5, train.item_degrees)
    pooled = pooling.vectors(train, vectors.__getitem__, 3)
    lists = ItemLists(random_interactions(10, 10, 0.5, seed=6), np.ones(0, dtype=np.float32))
    lists = ItemLists(lists.pairs, np.ones(lists.pairs.num_pairs, dtype=np.float32))
    scores = np.zeros((20, 10), dtype=np.float32)
    lists.add_for(scores, train)
    for user in range(20):
        own = slice(train.indptr[user], train.indptr[user + 1])
        items = train.items[own]
        if not len(items):
            continue
        wanted = (vectors[items] * (relative[own] * train.item_degrees[items] ** -0.5)[:, None]).sum(axis=0)
        assert np.allclose(pooled[user], wanted * len(items) ** -0.5, atol=1e-5)
        spoken = lists.pairs.to_scipy().toarray()[items] * relative[own, None]
        assert np.allclose(scores[user], spoken.sum(axis=0) * len(items) ** -0.5, atol=1e-5)
    plain = Interactions(train.indptr, train.items, train.num_items)
    settings = AlsSettings(alpha=5.0)
    ratio = confidences(train, settings).data / confidences(plain, settings).data / train.weights
    assert np.allclose(ratio, ratio[0])


def test_a_model_of_weighed_pairs_is_saved_and_updated(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    users, items = np.repeat(np.arange(60), 8), rng.integers(0, 30, 480)
    times = 1_700_000_000 + rng.integers(0, 90, 480) * DAY
    log = pl.DataFrame({"user": users, "item": items, "time": times})
    model = Recommender(
        "full", preset="items", method_options={"dim": 8}, ranking={"bytes": 20_000, "bits": 4, "lists": None}
    ).fit(log, half_life="30d", protocol="temporal")
    model.save(tmp_path / "run")
    loaded = Recommender.load(tmp_path / "run")
    assert np.array_equal(loaded.ranking.histories.weights, model.ranking.histories.weights)
    assert np.array_equal(loaded.ranking.users, model.ranking.users)
    later = pl.DataFrame({"user": [1, 2, 99], "item": [3, 4, 5], "time": [1_700_000_000 + 150 * DAY] * 3})
    before = model.ranking.histories
    assert before.weights is not None
    loaded.update(later)
    after = loaded.ranking.histories
    assert after.weights is not None
    assert loaded.metrics["weighed_at"] == pytest.approx(1_700_000_000 + 150 * DAY)
    assert after.of(60).tolist() == [loaded.items.find(5)]
    assert after.weights[-1] == 1
    gone = (1_700_000_000 + 150 * DAY - model.metrics["weighed_at"]) / (30 * DAY)
    user = 10
    old = before.weights[before.indptr[user] : before.indptr[user + 1]]
    assert np.allclose(after.weights[after.indptr[user] : after.indptr[user + 1]], old * 2.0**-gone, rtol=1e-5)
