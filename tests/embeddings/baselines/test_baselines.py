# SPDX-License-Identifier: Apache-2.0
"""Popularity, neighbours, EASE and ALS: each against the plain, dense form of what it computes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.embeddings.baselines.ease import Ease, EaseConfig
from legcf.embeddings.baselines.item_knn import ItemKnn, ItemKnnConfig, item_knn_ranking
from legcf.evaluation.evaluate import evaluate
from legcf.export.build import build
from legcf.export.options import ExportOptions
from legcf.factorisation.als import AlsSettings, factorise
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.topk import rank
from legcf.recommender import Recommender
from legcf.scoring.scorer import Scorer
from legcf.training.loop import TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train
from tests.helpers import planted, random_interactions

BASELINES = {"popularity": {}, "item-knn": {"neighbours": 20}, "ease": {}, "als": {"dim": 8}}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(52, 48, cold=2)


@pytest.fixture(scope="module", params=BASELINES)
def model(request: pytest.FixtureRequest, dataset: Dataset) -> Recommender:
    return Recommender(request.param, method_options=BASELINES[request.param]).fit(dataset)


def fitted(dataset: Dataset, method: str, **options: Any) -> Recommender:
    return Recommender(method, method_options=options).fit(dataset)


def dense(lists: ItemLists) -> np.ndarray:
    """S as a matrix: row j, column i."""
    matrix = np.zeros((lists.pairs.num_users, lists.pairs.num_items))
    matrix[lists.pairs.users(), lists.pairs.items] = lists.weights
    return matrix


def dense_ease(train: Interactions, ridge: float) -> np.ndarray:
    relation = train.to_scipy().toarray().astype(np.float64)
    inverse = np.linalg.inv(relation.T @ relation + ridge * np.eye(train.num_items))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return weights


class TestPopularity:
    def test_everybody_is_shown_what_most_have(self, dataset: Dataset) -> None:
        ranking = fitted(dataset, "popularity").ranking
        ranked, scores = rank(ranking, 10)
        wanted = np.argsort(-dataset.train.item_degrees, kind="stable")[:10]
        assert (ranked == wanted).all()
        assert (scores == dataset.train.item_degrees[wanted]).all()

    def test_it_stores_a_count_per_item(self, dataset: Dataset) -> None:
        assert fitted(dataset, "popularity").metrics["num_params"] == dataset.num_items


class TestItemKnn:
    @pytest.mark.parametrize("power", [0.0, 1.0])
    @pytest.mark.parametrize("neighbours", [3, 1000])
    @pytest.mark.parametrize("shrinkage", [0.0, 7.0])
    def test_weights_are_those_of_the_dense_form(self, power: float, neighbours: int, shrinkage: float) -> None:
        train = random_interactions(40, 30, 0.2, 0)
        relation = train.to_scipy().toarray().astype(np.float64)
        users, items = relation.sum(axis=1), np.maximum(relation.sum(axis=0), 1)
        likeness = (relation * np.maximum(users, 1)[:, None] ** -power).T @ relation
        likeness /= np.sqrt(np.outer(items, items)) + shrinkage
        np.fill_diagonal(likeness, 0)
        for i in range(30):  # those that speak for an item are the nearest of its column
            column = likeness[:, i]
            column[column < np.sort(column)[-min(neighbours, 30)]] = 0
        layer = ItemKnn(ItemKnnConfig(neighbours=neighbours, user_power=power, shrinkage=shrinkage), 40, 30)
        found = dense(layer.item_lists(train))
        if neighbours < 30:  # of equals at the edge, either may stay
            assert ((found > 0).sum(axis=0) <= neighbours).all()
            clear = found > 0
            assert np.allclose(found[clear], likeness[clear], atol=1e-6)
            assert np.allclose(found.sum(axis=0)[(likeness > 0).sum(axis=0) <= neighbours],
                               likeness.sum(axis=0)[(likeness > 0).sum(axis=0) <= neighbours], atol=1e-5)  # fmt: skip
        else:
            assert np.allclose(found, likeness, atol=1e-6)

    def test_plain_cosines_are_a_preset(self) -> None:
        settings = resolve("item-knn", preset="paper").method.model_dump()
        assert (settings["user_power"], settings["shrinkage"]) == (0, 0)

    @pytest.mark.parametrize("has_validation", [True, False])
    def test_shrinkage_is_chosen_without_test_pairs(self, has_validation: bool) -> None:
        """Beside rare items that meet by chance; measured on LastFM, it is a fifth better than none."""
        data = planted(200, 300, seed=1)
        rng = np.random.default_rng(0)
        strange = np.arange(300, 400), rng.integers(200, size=100), rng.integers(200, size=100)
        users = np.concatenate([data.train.users(), strange[1], strange[2]])
        items = np.concatenate([data.train.items, strange[0], strange[0]])
        train_pairs = Interactions.from_pairs(users, items, 200, 400)
        nothing = Interactions.empty(200, 400)
        held_out = {
            name: Interactions.from_pairs(part.users(), part.items, 200, 400)
            for name, part in (("validation", data.validation), ("test", data.test))
        }
        if not has_validation:
            held_out["validation"] = nothing
        mixed = Dataset("mixed", "ratio", data.users, IdMap.consecutive(400), train_pairs, **held_out)
        chosen = ItemKnn.chosen(ItemKnnConfig(), mixed)
        assert chosen.shrinkage is not None
        assert 1 <= chosen.shrinkage <= 1000
        blind = Dataset("mixed", "ratio", data.users, mixed.items, train_pairs, mixed.validation, nothing)
        assert ItemKnn.chosen(ItemKnnConfig(), blind) == chosen
        assert ItemKnn.chosen(ItemKnnConfig(shrinkage=2.0), mixed).shrinkage == 2
        scores = [
            evaluate(item_knn_ranking(config, train_pairs), mixed.test, (20,))["ndcg@20"]
            for config in (chosen, ItemKnnConfig(shrinkage=0.0))
        ]
        assert scores[0] > 0.99 * scores[1]
        assert fitted(mixed, "item-knn").config.method.model_dump()["shrinkage"] == chosen.shrinkage


class TestEase:
    def test_weights_are_those_of_the_dense_form(self) -> None:
        train = random_interactions(60, 25, 0.2, 1)
        lists = Ease(EaseConfig(ridge=2.0), 60, 25).item_lists(train)
        assert lists.num_entries == 25 * 24
        assert np.allclose(dense(lists), dense_ease(train, 2.0 * train.num_pairs / 25), atol=1e-5)

    def test_where_items_are_many_and_all_are_candidates_nothing_is_lost(self) -> None:
        """An item's weights in EASE are its ridge regression on the others, so both ways meet."""
        train = random_interactions(60, 25, 0.4, 1)
        sparse = Ease(EaseConfig(dense_items=10, candidates=24), 60, 25).item_lists(train)
        whole = dense_ease(train, 2.0 * train.num_pairs / 25)
        assert np.allclose(dense(sparse), whole, atol=1e-3)

    def test_few_candidates_keep_most_of_it(self, dataset: Dataset) -> None:
        whole = fitted(dataset, "ease").metrics["test"]["ndcg@20"]
        sparse = fitted(dataset, "ease", dense_items=10, candidates=12)
        assert sparse.metrics["list_entries"] <= 12 * dataset.num_items
        assert sparse.metrics["test"]["ndcg@20"] > 0.9 * whole


class TestAls:
    def test_scores_are_those_of_the_factorisation(self, dataset: Dataset) -> None:
        ranking = fitted(dataset, "als", dim=8).ranking
        users, items = factorise(dataset.train, 8, np.random.default_rng(0), AlsSettings())
        assert np.allclose(ranking.users @ ranking.items.T, users @ items.T, atol=1e-4)

    def test_a_budget_decides_the_width(self) -> None:
        config = resolve("als", overrides={"method": {"budget": 900}})
        assert config.method.model_dump()["dim"] == 128
        trained = train(planted(40, 40), config, TrainingOptions(quiet=True))
        assert trained.model.layer.num_params() == 80 * (900 // 80)


class TestAll:
    def test_accuracy_is_that_of_a_model_that_knows(self, model: Recommender) -> None:
        """Communities are planted: only popularity cannot see them."""
        found = model.metrics["test"]["recall@20"]
        assert found < 0.8 if model.config.method.name == "popularity" else found > 0.99

    def test_a_run_comes_back(self, model: Recommender, tmp_path: Path) -> None:
        model.save(tmp_path)
        again = Recommender.load(tmp_path)
        for one, other in zip(rank(model.full_history_ranking, 10), rank(again.full_history_ranking, 10), strict=True):
            assert np.array_equal(one, other)

    def test_a_file_gives_the_same_answers(self, model: Recommender, dataset: Dataset, tmp_path: Path) -> None:
        build(model.trained, ExportOptions(dtype="float32"), dataset.validation).save(tmp_path / "m.legcf")
        items, _ = Scorer.load(tmp_path / "m.legcf").recommend_all(10)
        ranked, _ = rank(model.full_history_ranking, 10, seen=model.full_history_ranking.histories)
        alike = [len(set(one) & set(other)) for one, other in zip(items.tolist(), ranked.tolist(), strict=True)]
        assert np.mean(alike) > 9

    def test_lists_beside_lists_are_refused(self, dataset: Dataset) -> None:
        with pytest.raises(UserError, match="lists of its own"):
            Recommender("item-knn", ranking={"lists": 2.0}).fit(dataset)
