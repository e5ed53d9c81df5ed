# SPDX-License-Identifier: Apache-2.0
"""Fit the map from features of items to their vectors: a ridge regression on the items that users have.

The weight of each column of the table, and with it the ridge, are those that rank held-out items best for the users who
have them. A ridge that ranks well makes vectors short, so a last factor, `reach`, stretches them from the mean: by as
much as the scores of held-out items need.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from legcf.core.arrays import FloatArray
from legcf.core.hill_climb import climb
from legcf.core.random_streams import fixed_generator
from legcf.data.interactions import Interactions
from legcf.features.encoder import FeatureMap
from legcf.ranking.popularity import trust
from legcf.ranking.tables.pooling import Pooling

FOLDS = 5  # of the items; not measured, nor are the next three
_FIRST_WEIGHT = 0.25  # of a column where the search starts, with a ridge of 1
_LEAST_FACTOR, _MOST_FACTOR = 1 / 64, 64.0  # that a weight changes by in one turn
_ROUNDS = 2  # turns of all columns together and of each by itself
_LIST_LENGTH = 20  # items that a user is recommended, at most a tenth of the fold
_MOST_SCORES = 2_000_000  # scores of a fold, which bound its users


def fit_map(
    rows: sp.csr_matrix, widths: Sequence[int], vectors: FloatArray, histories: Interactions, pooling: Pooling
) -> FeatureMap:
    """Return the map for these items, each weighted by `trust` in its vector; items without features do not count.

    `widths` are those of the table's columns in a row.
    """
    popularity = histories.item_degrees * (np.diff(rows.indptr) > 0)
    weights: FloatArray = trust(popularity) * (popularity > 0)
    folds = _folds(rows, vectors, weights, histories, pooling)
    feature_weights = chosen_weights(widths, [fold.score for fold in folds])
    return Regression.of(rows, vectors, weights).solved(feature_weights, _reach(folds, feature_weights))


def chosen_weights(
    widths: Sequence[int], folds: Sequence[Callable[[NDArray[np.float64]], float]]
) -> NDArray[np.float64]:
    """Return the weight of every feature: one for each column, those that rank held-out entities best.

    Each of the `folds` says how well a map with some weights of features ranks what it holds out; more is better.
    """
    column_weights = np.full(len(widths), _FIRST_WEIGHT)

    def score(columns: NDArray[np.bool_], factor: float) -> float:
        changed = np.where(columns, factor * column_weights, column_weights)
        return sum(score_of(np.repeat(changed, widths)) for score_of in folds)

    single = np.eye(len(widths), dtype=np.bool_)
    turns = [np.ones(len(widths), dtype=np.bool_), *(single if len(widths) > 1 else ())]
    for columns in turns * _ROUNDS if folds else ():
        column_weights[columns] *= climb(partial(score, columns), 1.0, _LEAST_FACTOR, _MOST_FACTOR)
    return np.repeat(column_weights, widths)


@dataclass(frozen=True, eq=False)
class Regression:
    """Hold sums over some rows, both sides centred by their weighted means, so that the intercept is not shrunk."""

    gram: NDArray[np.float64]
    right: NDArray[np.float64]
    mean_row: NDArray[np.float64]
    mean: NDArray[np.float64]

    @classmethod
    def of(cls, rows: sp.csr_matrix, vectors: FloatArray, weights: FloatArray) -> "Regression":
        total = max(float(weights.sum()), 1e-12)
        mean_row = np.asarray(rows.T @ weights).ravel().astype(np.float64) / total
        mean = (weights[:, None] * vectors).sum(axis=0, dtype=np.float64) / total
        weighted = sp.diags(weights) @ rows
        gram = np.asarray((rows.T @ weighted).todense(), dtype=np.float64) - total * np.outer(mean_row, mean_row)
        right = np.asarray(weighted.T @ vectors, dtype=np.float64) - total * np.outer(mean_row, mean)
        return cls(gram, right, mean_row, mean)

    def solved(self, feature_weights: NDArray[np.float64], reach: float = 1.0) -> FeatureMap:
        """Solve with a ridge of 1 on weighted features, C the diagonal of weights: reach · C (C G C + I)⁻¹ C R."""
        column = feature_weights[:, None]
        system = self.gram * column * feature_weights + np.eye(len(feature_weights))
        matrix = column * cho_solve(cho_factor(system, overwrite_a=True), column * self.right)
        matrix *= reach
        return FeatureMap(matrix.astype(np.float32), (self.mean - self.mean_row @ matrix).astype(np.float32))


@dataclass(frozen=True, eq=False)
class _Fold:
    """Hold some items as if nobody had them, and users as they are without them."""

    others: Regression
    rows: sp.csr_matrix
    vectors: FloatArray
    weights: FloatArray
    users: FloatArray
    truth: NDArray[np.bool_]
    """Users × items."""

    def score(self, feature_weights: NDArray[np.float64]) -> float:
        """Return the mean share of a user's held-out items, as far as the list is long, among the recommended ones."""
        scores = self.users @ self.others.solved(feature_weights).vectors(self.rows).T
        return found_share(scores, self.truth)

    def products(self, feature_weights: NDArray[np.float64]) -> tuple[float, float]:
        """Return the weighted sums predicted · true and predicted² of centred scores."""
        mean = self.others.mean
        predicted = self.users @ (self.others.solved(feature_weights).vectors(self.rows) - mean).T
        true = self.users @ (self.vectors - mean).T
        return float((predicted * true * self.weights).sum()), float((predicted * predicted * self.weights).sum())


def found_share(scores: FloatArray, truth: NDArray[np.bool_]) -> float:
    """Return the mean share of a user's true items, as far as the list is long, among the best ones."""
    length = min(_LIST_LENGTH, max(1, scores.shape[1] // 10))
    best = np.argpartition(-scores, length - 1, axis=1)[:, :length]
    hits = np.take_along_axis(truth, best, axis=1).sum(axis=1)
    return float((hits / np.minimum(truth.sum(axis=1), length)).mean())


def _reach(folds: Sequence[_Fold], feature_weights: NDArray[np.float64]) -> float:
    """Return the least-squares factor that rescales predicted scores to those of the true vectors; at least 1."""
    sums = [fold.products(feature_weights) for fold in folds]
    both, squares = sum(first for first, _ in sums), sum(second for _, second in sums)
    return max(both / squares, 1.0) if squares > 0 else 1.0


def _folds(
    rows: sp.csr_matrix, vectors: FloatArray, weights: FloatArray, histories: Interactions, pooling: Pooling
) -> list[_Fold]:
    rng = fixed_generator()
    fold_of = rng.integers(0, FOLDS, len(vectors))
    pairs = histories.to_scipy()
    folds = []
    for fold in range(FOLDS):
        hidden = (fold_of == fold) & (weights > 0)
        rest = histories.subset(~hidden[histories.items])
        able = np.flatnonzero((rest.user_degrees > 0) & (rest.user_degrees < histories.user_degrees))
        if not (len(able) and weights[~hidden].any()):
            continue
        eval_users = np.sort(rng.permutation(able)[: max(1, _MOST_SCORES // int(hidden.sum()))])
        folds.append(
            _Fold(
                Regression.of(rows[~hidden], vectors[~hidden], weights[~hidden]),
                rows[hidden],
                vectors[hidden],
                weights[hidden],
                pooling.vectors(rest.of_users(eval_users), vectors.__getitem__, vectors.shape[1]),
                (pairs[eval_users][:, np.flatnonzero(hidden)] > 0).toarray(),
            )
        )
    return folds
