# SPDX-License-Identifier: Apache-2.0
"""What neighbours add: the dense product it stands for, its scale, anybody's history, and the weight found for it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.core.config import RankingConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.ranking import neighbours
from legcf.ranking.neighbours import Neighbours, product_spread
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank
from legcf.recommender import Recommender
from tests.helpers import graphs, planted, random_interactions


def dense(train: Interactions) -> np.ndarray:
    pairs = train.to_scipy().toarray().astype(np.float64)

    def scale(degrees: np.ndarray, power: float) -> np.ndarray:
        return np.where(degrees > 0, np.maximum(degrees, 1.0) ** -power, 0.0)

    users, items = train.user_degrees, train.item_degrees
    near = scale(users, 0.5)[:, None] * pairs * scale(items, 0.5)
    return near @ pairs.T @ (scale(users, 1.0)[:, None] * pairs * scale(items, 0.5))


@pytest.mark.parametrize("share", [0.0, 2.0], ids=["by products", "by walks"])
@given(train=graphs(), seed=st.integers(0, 100))
def test_adds_the_dense_product(share: float, train: Interactions, seed: int) -> None:
    users = np.random.default_rng(seed).permutation(train.num_users)[: train.num_users // 2 + 1]
    scores = np.ones((len(users), train.num_items), dtype=np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_WALKS_UP_TO", share)
        patch.setattr(neighbours, "_TOGETHER", 3)
        Neighbours.of(train).add_for(scores, train.of_users(users))
    assert np.allclose(scores - 1, dense(train)[users], atol=1e-5)


def test_a_history_that_training_never_saw() -> None:
    train = random_interactions(30, 20, 0.2, 1)
    stranger = Interactions.from_pairs(np.zeros(2, dtype=np.int64), np.array([3, 7]), 1, 20)
    scores = np.zeros((1, 20), dtype=np.float32)
    Neighbours.of(train).add_for(scores, stranger)
    twin = np.flatnonzero([set(train.of(user)) == {3, 7} for user in range(30)])
    assert not len(twin)
    assert scores.any()
    met = np.unique(np.concatenate([train.transposed().of(3), train.transposed().of(7)]))
    reached = np.unique(np.concatenate([train.of(int(user)) for user in met]))
    assert np.array_equal(np.flatnonzero(scores[0]), reached)


def test_weight_is_told_in_spreads_of_the_scores() -> None:
    rng = np.random.default_rng(0)
    train = random_interactions(40, 25, 0.2, 2)
    users, items = (rng.standard_normal((size, 6)).astype(np.float32) + 0.3 for size in (40, 25))
    products = users @ items.T
    assert product_spread(users, items) == pytest.approx(products.std(), rel=1e-5)
    added = np.zeros_like(products)
    Neighbours.of(train).weighing(0.7, Ranking(users, items, train)).add_for(added, train)
    assert added.std() == pytest.approx(0.7 * products.std(), rel=1e-4)


def test_without_any_pairs_nothing_is_added() -> None:
    vectors = np.ones((3, 2), dtype=np.float32)
    nothing = Interactions.empty(3, 3)
    nobody = Neighbours.of(nothing).weighing(1.0, Ranking(vectors, vectors, nothing))
    scores = np.zeros((3, 3), dtype=np.float32)
    nobody.add_for(scores, nothing)
    assert not scores.any()


def test_ranking_is_by_the_sum() -> None:
    rng = np.random.default_rng(3)
    train = random_interactions(20, 15, 0.2, 4)
    users, items = (rng.standard_normal((size, 4)).astype(np.float32) for size in (20, 15))
    plain = Ranking(users, items, train)
    term = Neighbours.of(train).weighing(2.0, plain)
    ranked, scores = rank(replace(plain, term=term), 15, np.arange(5, 20))
    total = users @ items.T + term.scale * dense(train)
    assert np.allclose(scores, np.take_along_axis(total[5:], ranked.astype(np.int64), axis=1), atol=1e-5)
    assert (np.diff(scores, axis=1) <= 0).all()


def test_weight_is_chosen_on_validation_and_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    dataset = planted(80, 80)
    training = {"epochs": 1, "batch_size": 100, "threads": 1}
    fixed, fitted = (
        Recommender(preset="items-only", training=training, ranking={"neighbours": 0.5, "fit_neighbours": fit}).fit(
            dataset
        )
        for fit in (False, True)
    )
    tried = [line for line in fitted.curve if line["stage"] == "neighbours"]
    best = max(tried, key=lambda line: line["validation"]["ndcg@20"])
    weight = fitted.metrics["neighbour_weight"]
    assert weight == best["search"]["weight"]
    assert {weight / 2, weight, weight * 2} <= {line["search"]["weight"] for line in tried}
    assert fitted.metrics["validation"]["ndcg@20"] >= fixed.metrics["validation"]["ndcg@20"]
    assert fitted.metrics["num_params"] == fitted.model.layer.num_params() + 1
    folder = tmp_path_factory.mktemp("model")
    fitted.save(folder)
    again = Recommender.load(folder)
    before, after = fitted.recommend(k=5), again.recommend(k=5)
    assert after["item"].equals(before["item"])
    assert np.allclose(after["score"], before["score"], rtol=1e-4)


def test_without_validation_the_weight_is_chosen_on_pairs_held_out() -> None:
    dataset = planted(60, 60)
    unjudged = replace(dataset, validation=Interactions.empty(60, 60))
    ranking = {"neighbours": 0.5, "fit_neighbours": True}
    fitted = Recommender(preset="items-only", training={"epochs": 1, "batch_size": 100}, ranking=ranking).fit(unjudged)
    assert fitted.metrics["neighbour_weight"] == fitted.config.ranking.neighbours
    assert fitted.metrics["chosen_on"]["validation"]["ndcg@20"] > 0
    assert fitted.ranking.histories.num_pairs == dataset.train.num_pairs


def test_a_weight_to_fit_must_be_positive() -> None:
    with pytest.raises(ValueError, match="fit_neighbours needs a weight"):
        RankingConfig(fit_neighbours=True)
    with pytest.raises(UserError, match="neighbours"):
        Recommender(ranking={"neighbours": -1})
