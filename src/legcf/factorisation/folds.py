# SPDX-License-Identifier: Apache-2.0
"""Find α and λ of a factorisation where pairs are few, on validation and held-out training pairs together.

α and λ belong together: λ shrinks what α makes large, and beyond some λ / α nothing is left of the vectors. So that
ratio is climbed first, then both with the ratio kept; one of them alone ends beside the best. A few thousand validation
pairs prefer one table of many by luck; folds of the training pairs are more, validation pairs are more like test.
Trials are narrow, and each goes on from the vectors of the best before it: on LastFM (docs/study.md, section 13) three
further rounds of 64 columns prefer the ratio that eight rounds of 128 prefer.
"""

from dataclasses import dataclass

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.data.interactions import MANY_PAIRS, Dataset, Interactions
from legcf.evaluation.evaluator import Evaluator
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.history_vectors import history_ranking
from legcf.ranking.score import Lead, Score, lead

# Measured on LastFM (docs/study.md, section 13), where every search ends at α = 10 and λ = 4 α.
_PARTS = 5  # of everyone's pairs, of which one is held out; other numbers were not measured
_ENOUGH_PAIRS = 40_000  # held out, in all folds together: five folds of LastFM; other numbers were not measured
_FOLDS_TRIED = 2  # beside validation: the first two of LastFM's five prefer what all five prefer
_FIRST_ALPHA, _LEAST_ALPHA, _MOST_ALPHA = 10.0, 1.25, 80.0
# λ / α; beyond 4 the vectors of LastFM vanish. From 4 on, with five rounds at first and two more each time, searches
# end at 2 there: 0.2526 / 0.1782 on held-out fifths (four splits) in place of 0.2640 / 0.1873.
_FIRST_RATIO, _LEAST_RATIO, _MOST_RATIO = 2.0, 0.0625, 16.0
_MORE_ROUNDS = 3  # from the vectors of the best trial so far
_EVAL_USERS = 2000
_Vectors = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Fold:
    """Hold training pairs and the pairs that they are to find."""

    seen: Interactions
    hidden: Interactions

    def score(self, vectors: _Vectors) -> Score:
        """Return how well these vectors of the seen pairs, summed over histories, find the hidden ones."""
        evaluator = Evaluator(self.hidden).sampled(_EVAL_USERS)
        return evaluator.scored(history_ranking(self.seen, *vectors))[1]


@dataclass(frozen=True, eq=False)
class _Trial:
    """Hold what α and λ / α were tried, and the vectors and scores of every fold; the first fold is validation."""

    alpha: float
    ratio: float
    vectors: list[_Vectors]
    scores: list[Score]

    def lead_over(self, other: "_Trial") -> Lead:
        """Compare with another trial; validation counts as much as all other folds together."""
        leads = [lead(one, another) for one, another in zip(self.scores, other.scores, strict=True)]
        shares = [1.0, *[1 / max(len(leads) - 1, 1)] * (len(leads) - 1)]
        difference = sum(share * one.difference for share, one in zip(shares, leads, strict=True))
        squares = sum((share * one.error) ** 2 for share, one in zip(shares, leads, strict=True))
        return Lead(difference, float(np.sqrt(squares)))


def best_factorisation(dataset: Dataset, width: int, rng: np.random.Generator, settings: AlsSettings) -> AlsSettings:
    """Find the ratio λ / α that is best, then another α with that ratio if it is better by more than its error."""
    tried_on = [Fold(dataset.train, dataset.validation), *folds(dataset.train, rng)[:_FOLDS_TRIED]]
    seed = int(rng.integers(2**32))

    def tried(alpha: float, ratio: float, before: _Trial | None) -> _Trial:
        trial = _with(settings, alpha, ratio)
        starts: list[_Vectors | None] = [None] * len(tried_on)
        if before is not None:
            trial = trial.model_copy(update={"rounds": min(_MORE_ROUNDS, settings.rounds)})
            starts = [*before.vectors]
        vectors = [
            factorise(fold.seen, width, np.random.default_rng(seed), trial, start=start)
            for fold, start in zip(tried_on, starts, strict=True)
        ]
        return _Trial(alpha, ratio, vectors, [fold.score(pair) for fold, pair in zip(tried_on, vectors, strict=True)])

    best = first = tried(_FIRST_ALPHA, _FIRST_RATIO, None)
    for factor in (2.0, 0.5):
        while _LEAST_RATIO <= factor * best.ratio <= _MOST_RATIO:
            trial = tried(best.alpha, factor * best.ratio, best)
            if trial.lead_over(best).difference <= 0:
                break
            best = trial
        if best is not first:
            break
    usual = best
    for factor in (2.0, 0.5):
        while _LEAST_ALPHA <= factor * best.alpha <= _MOST_ALPHA:
            trial = tried(factor * best.alpha, best.ratio, best)
            if not trial.lead_over(best).exceeds():
                break
            best = trial
        if best is not usual:
            break
    return _with(settings, best.alpha, best.ratio)


def _with(settings: AlsSettings, alpha: float, ratio: float) -> AlsSettings:
    return settings.model_copy(update={"alpha": alpha, "regularisation": ratio * alpha})


def folds(train: Interactions, rng: np.random.Generator) -> list[Fold]:
    """Split off enough held-out pairs in one to five folds, about the same share of everyone; no pair twice."""
    if train.num_pairs > MANY_PAIRS:
        train = train.of_users(train.some_users(MANY_PAIRS, rng))
    count = int(np.clip(np.ceil(_ENOUGH_PAIRS * _PARTS / max(train.num_pairs, 1)), 1, _PARTS))
    numbers = train.fold_numbers(_PARTS, rng)
    return [Fold(train.subset(numbers != one), train.subset(numbers == one)) for one in range(count)]
