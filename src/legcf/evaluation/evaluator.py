# SPDX-License-Identifier: Apache-2.0
"""Measure rankings on held-out pairs, and decide which score picks epochs and which picks tables and lists."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from legcf.core.arrays import Positions
from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import Ranker, evaluate, evaluate_with_users, with_truth
from legcf.evaluation.metrics import parse_metric
from legcf.ranking.ranking import Ranking
from legcf.ranking.score import Score
from legcf.ranking.topk import rank


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Measure rankings on held-out pairs, by two scores for two decisions.

    `epoch_score` picks the epoch whose weights are kept: it is the monitored metric itself. `selection_score` picks
    tables, lists and their settings, and decides between a trained and an untrained model: it is the geometric mean of
    the monitored metric and of recall at the same length. Candidates of a selection are many and alike, and two
    rankings that differ in both metrics differ less by luck.
    """

    truth: Interactions
    """The held-out pairs."""
    monitor: str = "ndcg@20"
    """A metric, as `training.monitor` names it."""
    users: Positions | None = None
    """Who is evaluated; None: everyone who has held-out items."""
    ranker: Ranker = rank

    def __post_init__(self) -> None:
        parse_metric(self.monitor)

    def sampled(self, most: int) -> "Evaluator":
        """Return an evaluator of at most so many of the same users, evenly spaced; the same for the same users."""
        users = self.evaluated_users
        if len(users) <= most:
            return self
        return replace(self, users=users[np.linspace(0, len(users) - 1, most).astype(np.int64)])

    @property
    def evaluated_users(self) -> Positions:
        """Return who has held-out pairs among the users."""
        return with_truth(self.truth, self.users)

    def renumbered(self) -> "Evaluator":
        """Return the same for rankings that have the evaluated users alone, in the same order."""
        return replace(self, truth=self.truth.of_users(self.evaluated_users), users=None)

    def metrics(self, ranking: Ranking) -> dict[str, float]:
        """Return the monitored metric, and recall and NDCG at its length and at 20."""
        return evaluate(ranking, self.truth, *self._asked, self.ranker)

    def scored(self, ranking: Ranking) -> tuple[dict[str, float], Score]:
        """Return the metrics and the selection score, with what every user adds to it.

        A user adds s/2 · (its metric / the mean metric + its recall / the mean recall), whose mean is the score s; so
        the difference of two scores has the error of a difference of means.
        """
        means, per_user = evaluate_with_users(ranking, self.truth, *self._asked, self.ranker)
        score = self.selection_score(means)
        names = (self.monitor, f"recall@{parse_metric(self.monitor)[1]}")
        parts = [per_user[name] / means[name] if means[name] > 0 else np.zeros(len(per_user[name])) for name in names]
        return means, Score(score, score / 2 * (parts[0] + parts[1]))

    @property
    def _asked(self) -> tuple[list[int], Positions | None, set[str]]:
        """Return the lengths, users and metrics that are evaluated."""
        name, k = parse_metric(self.monitor)
        return sorted({k, 20}), self.users, {name, "recall", "ndcg"}

    def epoch_score(self, metrics: Mapping[str, float]) -> float:
        return metrics[self.monitor]

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        _, k = parse_metric(self.monitor)
        return float(np.sqrt(metrics[self.monitor] * metrics[f"recall@{k}"]))
