# SPDX-License-Identifier: Apache-2.0
"""Metrics against ranx, and what they are over users who have something to find."""

import sys
import warnings

import numpy as np
import pytest

from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import accuracies, accuracy, evaluate, evaluate_per_user, find_hits
from legcf.evaluation.metrics import METRICS
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank
from legcf.testing.metrics import MetricContract
from tests.helpers import interactions, random_interactions

IN_RANX = {
    "recall": "recall",
    "ndcg": "ndcg",
    "precision": "precision",
    "hitrate": "hit_rate",
    "mrr": "mrr",
    "map": "map",
}
KS = (1, 3, 5, 10, 30)


def random_case(seed: int) -> tuple[np.ndarray, np.ndarray, Interactions, Interactions]:
    """Coarse vectors, so that many scores are equal; some users without truth, one who has seen everything."""
    rng = np.random.default_rng(seed)
    users, items = (rng.integers(-1, 2, (size, 3)).astype(np.float32) for size in (40, 25))
    users[~users.any(axis=1)] = 1  # nobody is a stranger
    both = rng.random((40, 25))
    both[7] = 0.05
    seen, truth = np.argwhere(both < 0.15), np.argwhere(both > 0.85)
    truth = truth[truth[:, 0] % 5 != 1]
    as_part = lambda found: Interactions.from_pairs(found[:, 0], found[:, 1], 40, 25)  # noqa: E731
    return users, items, as_part(truth), as_part(seen)


@pytest.mark.parametrize("seed", [0, 1])
def test_against_ranx(seed: int) -> None:
    ranx = pytest.importorskip("ranx")
    users, items, truth, seen = random_case(seed)
    ours = evaluate(Ranking(users, items, seen), truth, KS)
    scores = users @ items.T
    relevant, shown = {}, {}
    for user in range(40):
        if len(truth.of(user)):
            relevant[str(user)] = {f"{item:03d}": 1 for item in truth.of(user).tolist()}
            allowed = np.setdiff1d(np.arange(25), seen.of(user))
            order = allowed[np.argsort(-scores[user, allowed], kind="stable")]
            shown[str(user)] = {f"{item:03d}": float(len(order) - place) for place, item in enumerate(order)} or {
                "none": 0.0
            }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = ranx.evaluate(relevant, shown, [f"{IN_RANX[name]}@{k}" for name in METRICS for k in KS])
    for name in METRICS:
        for k in KS:
            assert ours[f"{name}@{k}"] == pytest.approx(theirs[f"{IN_RANX[name]}@{k}"], abs=1e-6), f"{name}@{k}"


def test_by_hand() -> None:
    """One user, truth {0, 3}, list 2 0 1 3: recall@2 = 1/2, dcg@2 = 1/log2(3)."""
    users, items = np.ones((1, 1), np.float32), np.array([[3], [2], [4], [1]], dtype=np.float32)
    found = evaluate(Ranking(users, items, Interactions.empty(1, 4)), interactions([(0, 0), (0, 3)], 1, 4), (2, 4))
    assert found["recall@2"] == found["precision@2"] == found["mrr@2"] == 0.5
    assert found["hitrate@2"] == 1
    assert found["map@4"] == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert found["ndcg@2"] == pytest.approx((1 / np.log2(3)) / (1 + 1 / np.log2(3)))
    assert found["coverage@2"] == 0.5
    assert found["coverage@4"] == 1


def test_only_users_with_truth_count() -> None:
    users, items, truth, seen = random_case(2)
    per_user, ranked, chosen = evaluate_per_user(Ranking(users, items, seen), truth, (5,))
    assert np.array_equal(chosen, np.flatnonzero(truth.user_degrees))
    assert len(ranked) == len(chosen) == len(per_user["recall@5"])
    some = np.arange(0, 40, 3)
    part, _, who = evaluate_per_user(Ranking(users, items, seen), truth, (5,), users=some)
    assert np.array_equal(part["ndcg@5"], per_user["ndcg@5"][np.isin(chosen, who)])


def test_a_perfect_model_scores_one_and_a_hidden_truth_scores_zero() -> None:
    truth = interactions([(0, 1), (0, 2), (1, 0)], 2, 4)
    vectors = np.eye(2, dtype=np.float32)
    items = np.array([[0, 1], [1, 0], [1, 0], [0, 0]], dtype=np.float32)
    best = evaluate(Ranking(vectors, items, Interactions.empty(2, 4)), truth, (2,))
    assert best["recall@2"] == best["ndcg@2"] == best["map@2"] == best["mrr@2"] == 1
    masked = evaluate(Ranking(vectors, items, truth), truth, (2,))
    assert masked["recall@2"] == masked["hitrate@2"] == 0


def test_several_parts_by_one_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    users, items, truth, seen = random_case(3)
    other = truth.subset(truth.users() % 3 == 0)
    ranking, calls = Ranking(users, items, seen), []

    def counted(*given: object) -> object:
        calls.append(given)
        return rank(*given)  # type: ignore[arg-type]

    expected = {"test": accuracy(ranking, truth), "validation": accuracy(ranking, other)}
    monkeypatch.setattr(sys.modules[evaluate.__module__], "rank", counted)  # the module, which its function hides
    assert accuracies(ranking, {"test": truth, "validation": other}) == expected
    assert len(calls) == 1
    assert accuracies(ranking, {}) == {}


def test_no_truth_at_all() -> None:
    users, items = np.ones((3, 2), np.float32), np.ones((4, 2), np.float32)
    found = evaluate(Ranking(users, items, random_interactions(3, 4, 0.5, 0)), Interactions.empty(3, 4), (5, 20))
    assert set(found.values()) == {0.0}


def test_coverage_counts_items_shown_to_anyone() -> None:
    users, items = np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)
    truth = interactions([(0, 0), (1, 1)], 3, 3)
    found = evaluate(Ranking(users, items, Interactions.empty(3, 3)), truth, (1,))
    assert found["coverage@1"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("metric", sorted(METRICS))
class TestMetrics(MetricContract):
    pass


def test_places_without_an_item_are_no_hits() -> None:
    truth = interactions([(0, 1), (1, 0)], 2, 3)
    hits = find_hits(np.array([[1, -1], [2, 0]], dtype=np.int32), np.array([0, 1]), truth)
    assert hits.tolist() == [[True, False], [False, True]]
