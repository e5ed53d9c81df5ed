"""From a model's vectors to what ranks, as the section `ranking` of the configuration wants it: a step after training.

What is chosen here is chosen on held-out pairs by whoever judges; this module knows neither data nor metrics.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legcf.climb import climb
from legcf.configuration import RankingConfig
from legcf.ranking.neighbours import Neighbours
from legcf.ranking.ranking import Ranking

Stored = Mapping[str, NDArray[np.generic]]


class Tuning:
    """Adds to rankings of one model what the configuration names."""

    def __init__(self, config: RankingConfig) -> None:
        self._config = config
        self._graph: Neighbours | None = None

    def start(self, ranking: Ranking) -> Ranking:
        """With the settings as they are configured: what training is validated by."""
        ranking = ranking.with_length(self._config.length)
        return self._weighing(ranking, self._config.neighbours) if self._config.neighbours else ranking

    def fitted(self, ranking: Ranking, score: Callable[[Ranking, float], float]) -> Ranking:
        """With the weight of neighbours that `score` likes best; every one that is tried is passed to it."""
        ranking = self.start(ranking)
        if not self._config.fit_neighbours:
            return ranking
        best = climb(lambda weight: score(self._weighing(ranking, weight), weight), self._config.neighbours)
        return self._weighing(ranking, best)

    def restored(self, ranking: Ranking, stored: Stored) -> Ranking:
        """With the settings that `stored` gave for a fitted one."""
        ranking = ranking.with_length(self._config.length)
        if "neighbour_weight" not in stored:
            return ranking
        return self._weighing(ranking, float(stored["neighbour_weight"].item()))

    def _weighing(self, ranking: Ranking, weight: float) -> Ranking:
        if self._graph is None or self._graph.train is not ranking.histories:
            self._graph = Neighbours.of(ranking.histories)
        return replace(ranking, term=self._graph.weighing(weight, ranking))


def stored(ranking: Ranking) -> dict[str, NDArray[np.generic]]:
    """What was chosen for a ranking, beside the vectors that its model gives: a file keeps it."""
    term = ranking.term
    return {"neighbour_weight": np.array(term.weight)} if isinstance(term, Neighbours) else {}
