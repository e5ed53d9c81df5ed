# SPDX-License-Identifier: Apache-2.0
"""One question, one answer: a run, the file made of it and the evaluator rank alike, for everybody."""

import numpy as np
import pytest

from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.evaluation.evaluate import evaluate_per_user
from legcf.export.build import build, served_ranking
from legcf.export.options import ExportOptions
from legcf.ranking.ranking import product_spread
from legcf.ranking.topk import rank
from legcf.recommender import Recommender
from legcf.scoring.scorer import Request, Scorer
from tests.helpers import planted

K = 20


def test_spread_of_all_products() -> None:
    rng = np.random.default_rng(0)
    users, items = (rng.standard_normal((size, 6)).astype(np.float32) + 0.3 for size in (40, 25))
    assert product_spread(users, items) == pytest.approx((users @ items.T).std(), rel=1e-5)
    assert product_spread(users[:0], items) == 0


METHODS = {
    "default": ("legcf", "default", {"c": 8, "dim": 8}),
    "paper": ("legcf", "paper", {"c": 8, "dim": 8}),
    "official": ("legcf", "official", {"c": 8, "dim": 8}),  # has a bias
    "full": ("full", "default", {"dim": 8}),  # counts half of a vector's length
}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """The last five users and items have no pairs at all; one user has pairs that no model is trained on."""
    plain = planted(45, 45, cold=5)
    test = plain.test.joined(Interactions.from_pairs(np.array([42]), np.array([3]), 45, 45))
    names = (IdMap.of([f"{kind} {number}" for number in range(45)], kind) for kind in ("user", "item"))
    return Dataset("named", "ratio", *names, plain.train, plain.validation, test)


@pytest.fixture(scope="module", params=METHODS)
def model(request: pytest.FixtureRequest, dataset: Dataset) -> Recommender:
    method, preset, options = METHODS[request.param]
    training = {"epochs": 1, "batch_size": 200}
    return Recommender(method, preset=preset, method_options=options, training=training).fit(dataset)


@pytest.fixture(scope="module")
def scorer(model: Recommender, dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    path = tmp_path_factory.mktemp("file") / "full.legcf"
    build(model.trained, ExportOptions(dtype="float32", format="full"), dataset.validation).save(path)
    return Scorer.load(path)


def same(ours: tuple[list[object], list[float]], theirs: tuple[list[object], list[float]]) -> None:
    """The same items with the same scores; items whose scores are equal but for rounding may change places."""
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-3, atol=1e-4)
    for place, (one, other) in enumerate(zip(ours[0], theirs[0], strict=True)):
        if one != other:
            assert other in ours[0][max(place - 3, 0) : place + 4] or place >= len(ours[0]) - 3


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_run_and_file_recommend_the_same(model: Recommender, scorer: Scorer, exclude_seen: bool) -> None:
    frame = model.recommend(k=K, exclude_seen=exclude_seen)
    for (user,), rows in frame.group_by("user", maintain_order=True):
        answer = scorer.recommend(Request(user=str(user), k=K, exclude_seen=exclude_seen))
        same(
            ([entry.id for entry in answer], [entry.score for entry in answer]),
            (rows["item"].to_list(), rows["score"].to_list()),
        )
    positions, scores = scorer.recommend_all(K, exclude_seen)
    ranked, wanted = rank(
        model.full_history_ranking, K, seen=model.full_history_ranking.histories if exclude_seen else None
    )
    for user in range(len(model.users)):
        found = positions[user] >= 0
        same(
            (positions[user][found].tolist(), scores[user][found].tolist()),
            (ranked[user][found].tolist(), wanted[user][found].tolist()),
        )


def test_run_and_file_find_the_same_similar_items(model: Recommender, scorer: Scorer) -> None:
    frame = model.similar_items(model.items.external(np.arange(45)), k=K)
    for (item,), rows in frame.group_by("to", maintain_order=True):
        answer = scorer.similar_items(str(item), k=K)
        same(
            ([entry.id for entry in answer], [entry.score for entry in answer]),
            (rows["item"].to_list(), rows["score"].to_list()),
        )


def test_the_evaluator_sees_the_same_lists(model: Recommender, scorer: Scorer, dataset: Dataset) -> None:
    """What `legcf evaluate` measures, by the run's ranking and by the file's, users without training pairs included."""
    lists = [
        evaluate_per_user(ranking, dataset.test, (K,))
        for ranking in (model.ranking, served_ranking(scorer.model, dataset.train))
    ]
    assert 42 in lists[0][2]
    for ours, theirs in zip(lists[0][1].tolist(), lists[1][1].tolist(), strict=True):
        assert len(set(ours) & set(theirs)) >= K - 1
    assert model.evaluate(ks=[K])["ndcg@20"] == pytest.approx(float(lists[1][0]["ndcg@20"].mean()), rel=1e-3)


def test_strangers_are_shown_what_is_popular(model: Recommender, scorer: Scorer, dataset: Dataset) -> None:
    popular = np.argsort(-model.ranking.popularity.astype(int), kind="stable")[:5]
    wanted = dataset.items.external(popular)
    assert model.recommend("user 44", k=5)["item"].to_list() == wanted
    assert [entry.id for entry in scorer.recommend(Request(user="user 44", k=5))] == wanted
