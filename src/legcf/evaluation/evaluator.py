# SPDX-License-Identifier: Apache-2.0
"""Measure rankings on held-out pairs, and decide which score picks epochs and which picks tables and lists."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from legcf.core.arrays import Positions
from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import Ranker, evaluate
from legcf.evaluation.metrics import parse_metric
from legcf.ranking.ranking import Ranking
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

    def metrics(self, ranking: Ranking) -> dict[str, float]:
        """Return the monitored metric, and recall and NDCG at its length and at 20."""
        name, k = parse_metric(self.monitor)
        return evaluate(ranking, self.truth, sorted({k, 20}), self.users, {name, "recall", "ndcg"}, self.ranker)

    def epoch_score(self, metrics: Mapping[str, float]) -> float:
        return metrics[self.monitor]

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        _, k = parse_metric(self.monitor)
        return float(np.sqrt(metrics[self.monitor] * metrics[f"recall@{k}"]))
