# SPDX-License-Identifier: Apache-2.0
"""Find α, λ and width of a factorisation where pairs are few, on validation and held-out training pairs together.

α and λ belong together: λ shrinks what α makes large, and beyond some λ / α nothing is left of the vectors. So that
ratio is climbed first, then both with the ratio kept; one of them alone ends beside the best. A few thousand validation
pairs prefer one table of many by luck; folds of the training pairs are more, validation pairs are more like test.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from legcf.core.hill_climb import climb
from legcf.data.interactions import MANY_PAIRS, Dataset, Interactions
from legcf.evaluation import CHOOSING_SCORES, Evaluator, eval_users
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.history_vectors import history_items
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.pooling import Pooling

# Measured on LastFM (docs/study.md, section 13), where every search ends at α = 10 and λ = 4 α.
_PARTS = 5  # of everyone's pairs, of which one is held out; other numbers were not measured
_ENOUGH_PAIRS = 40_000  # held out, in all folds together: five folds of LastFM; other numbers were not measured
_FIRST_ALPHA, _LEAST_ALPHA, _MOST_ALPHA = 10.0, 1.25, 80.0
_FIRST_RATIO, _LEAST_RATIO, _MOST_RATIO = 2.0, 0.0625, 16.0  # λ / α; beyond 4 the vectors of LastFM vanish
_HISTORY_POWER = 0.5  # what `history_items` fits its vectors for


@dataclass(frozen=True, eq=False)
class Fold:
    """Hold training pairs and the pairs that they are to find."""

    seen: Interactions
    hidden: Interactions

    def score(self, width: int, settings: AlsSettings, seed: int) -> float:
        """Return how well vectors of the seen pairs, summed over histories, find the hidden ones."""
        users, items = factorise(self.seen, width, np.random.default_rng(seed), settings)
        items = history_items(self.seen, users, items)
        pooling = Pooling(_HISTORY_POWER, _HISTORY_POWER, self.seen.item_degrees)
        ranking = Ranking(pooling.vectors(self.seen, items.__getitem__, width), items, self.seen)
        evaluator = Evaluator(self.hidden, users=eval_users(self.hidden, CHOOSING_SCORES))
        return evaluator.selection_score(evaluator.metrics(ranking))


def best_factorisation(
    dataset: Dataset, widths: tuple[int, ...], rng: np.random.Generator, settings: AlsSettings
) -> tuple[int, AlsSettings]:
    """Find α and λ for the first width, then widen while that is better. Folds count as much as validation."""
    validation = Fold(dataset.train, dataset.validation)
    held_out = folds(dataset.train, rng)
    seed = int(rng.integers(2**32))

    @cache
    def score(width: int, alpha: float, ratio: float) -> float:
        trial = _with(settings, alpha, ratio)
        on_folds = [fold.score(width, trial, seed) for fold in held_out]
        return validation.score(width, trial, seed) + sum(on_folds) / len(on_folds)

    width = widths[0]
    ratio = climb(lambda one: score(width, _FIRST_ALPHA, one), _FIRST_RATIO, _LEAST_RATIO, _MOST_RATIO)
    alpha = climb(lambda one: score(width, one, ratio), _FIRST_ALPHA, _LEAST_ALPHA, _MOST_ALPHA)
    for before, wider in pairwise(widths):
        if score(wider, alpha, ratio) <= score(before, alpha, ratio):
            break
        width = wider
    return width, _with(settings, alpha, ratio)


def _with(settings: AlsSettings, alpha: float, ratio: float) -> AlsSettings:
    return settings.model_copy(update={"alpha": alpha, "regularisation": ratio * alpha})


def folds(train: Interactions, rng: np.random.Generator) -> list[Fold]:
    """Split off enough held-out pairs in one to five folds, about the same share of everyone; no pair twice."""
    if train.num_pairs > MANY_PAIRS:
        train = train.of_users(train.some_users(MANY_PAIRS, rng))
    count = int(np.clip(np.ceil(_ENOUGH_PAIRS * _PARTS / max(train.num_pairs, 1)), 1, _PARTS))
    numbers = train.fold_numbers(_PARTS, rng)
    return [Fold(train.subset(numbers != one), train.subset(numbers == one)) for one in range(count)]
