# SPDX-License-Identifier: Apache-2.0
"""Check which score picks epochs and which picks tables and lists."""

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import evaluate
from legcf.evaluation.evaluator import Evaluator
from legcf.ranking.ranking import Ranking
from legcf.ranking.score import Lead, lead
from tests.helpers import random_interactions


def test_the_monitor_picks_epochs_and_its_mean_with_recall_picks_tables() -> None:
    evaluator = Evaluator(Interactions.empty(1, 1), "precision@5")
    metrics = {"precision@5": 0.09, "recall@5": 0.25, "recall@20": 0.9, "ndcg@20": 0.4}
    assert evaluator.epoch_score(metrics) == 0.09
    assert evaluator.selection_score(metrics) == pytest.approx(0.15)


def test_metrics_are_those_of_evaluate_for_its_users() -> None:
    rng = np.random.default_rng(0)
    users, items = (rng.standard_normal((count, 4)).astype(np.float32) for count in (30, 40))
    ranking, truth = Ranking(users, items, Interactions.empty(30, 40)), random_interactions(30, 40, 0.2, seed=1)
    some = np.arange(0, 30, 2)
    found = Evaluator(truth, "mrr@7", some).metrics(ranking)
    expected = evaluate(ranking, truth, (7, 20), some, ("mrr", "recall", "ndcg"))
    assert found == expected
    assert {"mrr@7", "recall@7", "ndcg@20"} <= found.keys()


def test_what_is_no_metric_is_refused_at_once() -> None:
    with pytest.raises(UserError, match="is not a metric such as ndcg@20"):
        Evaluator(Interactions.empty(1, 1), "ndcg")


def test_what_users_add_to_a_score_has_it_as_its_mean_and_tells_two_rankings_apart() -> None:
    rng = np.random.default_rng(0)
    users, items = (rng.standard_normal((count, 4)).astype(np.float32) for count in (60, 40))
    truth = random_interactions(60, 40, 0.2, seed=1)
    evaluator = Evaluator(truth)
    first, second = (
        evaluator.scored(Ranking(users + shift, items, Interactions.empty(60, 40)))[1] for shift in (0, 0.1)
    )
    assert first == pytest.approx(
        evaluator.selection_score(evaluator.metrics(Ranking(users, items, truth.empty(60, 40))))
    )
    assert first.per_user.mean() == pytest.approx(float(first))
    found = lead(second, first)
    assert found.difference == pytest.approx(second - first)
    gaps = second.per_user - first.per_user
    assert found.error == pytest.approx(gaps.std(ddof=1) / np.sqrt(len(gaps)))
    assert lead(first, first) == Lead(0.0, 0.0)
    assert not lead(first, first).exceeds()


def test_a_sample_is_the_same_again_and_has_truth() -> None:
    truth = random_interactions(60, 40, 0.1, seed=1)
    sample = Evaluator(truth).sampled(20).users
    assert sample is not None
    assert len(np.unique(sample)) == 20
    assert (truth.user_degrees[sample] > 0).all()
    assert Evaluator(truth).sampled(60).users is None
