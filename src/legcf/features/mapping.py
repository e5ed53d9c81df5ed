# SPDX-License-Identifier: Apache-2.0
"""From what is known of items to their vectors: a ridge regression on the items that people have.

How much each column of the table counts, and the ridge, are those with which items that the map has not seen are ranked
best for people who have them. A ridge that ranks well makes vectors short, so how far the map leads from the mean is
found by itself: as far as the scores of unseen items ask for.
"""

from collections.abc import Sequence
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
from legcf.features.cold_items import FeatureMap
from legcf.ranking.popularity import trust
from legcf.ranking.tables.pooling import Pooling

_FOLDS = 5
_FIRST = 0.25
"""What a column counts where the search starts, with a ridge of 1."""
_LEAST, _MOST = 1 / 64, 64.0  # that it changes by in one turn
_ROUNDS = 2
_SHOWN = 20
_MOST_SCORES = 2_000_000  # of a fold at once


def fit_map(
    rows: sp.csr_matrix, widths: Sequence[int], vectors: FloatArray, histories: Interactions, pooling: Pooling
) -> FeatureMap:
    """The map for these items, each weighed by how far its vector is to be trusted; items without a row do not count.

    `widths` are those of the table's columns in a row.
    """
    popularity = histories.item_degrees * (np.diff(rows.indptr) > 0)
    weights: FloatArray = trust(popularity) * (popularity > 0)
    folds = _folds(rows, vectors, weights, histories, pooling)
    counts = np.full(len(widths), _FIRST)

    def judged(some: NDArray[np.bool_], factor: float) -> float:
        changed = np.where(some, factor * counts, counts)
        return sum(fold.judged(np.repeat(changed, widths)) for fold in folds)

    single = np.eye(len(widths), dtype=np.bool_)
    turns = [np.ones(len(widths), dtype=np.bool_), *(single if len(widths) > 1 else ())]
    for some in turns * _ROUNDS if folds else ():
        counts[some] *= climb(partial(judged, some), 1.0, _LEAST, _MOST)
    chosen = np.repeat(counts, widths)
    return _Regression.of(rows, vectors, weights).solved(chosen, _reach(folds, chosen))


@dataclass(frozen=True, eq=False)
class _Regression:
    """Sums over some items, both sides centred by their weighed means, so that the start is not shrunk."""

    gram: NDArray[np.float64]
    right: NDArray[np.float64]
    mean_row: NDArray[np.float64]
    mean: NDArray[np.float64]

    @classmethod
    def of(cls, rows: sp.csr_matrix, vectors: FloatArray, weights: FloatArray) -> "_Regression":
        total = max(float(weights.sum()), 1e-12)
        mean_row = np.asarray(rows.T @ weights).ravel().astype(np.float64) / total
        mean = (weights[:, None] * vectors).sum(axis=0, dtype=np.float64) / total
        weighed = sp.diags(weights) @ rows
        gram = np.asarray((rows.T @ weighed).todense(), dtype=np.float64) - total * np.outer(mean_row, mean_row)
        right = np.asarray(weighed.T @ vectors, dtype=np.float64) - total * np.outer(mean_row, mean)
        return cls(gram, right, mean_row, mean)

    def solved(self, counts: NDArray[np.float64], reach: float = 1.0) -> FeatureMap:
        """With a ridge of 1 on features that count so much each: (C G C + I)⁻¹ C R, times C and the reach."""
        system = self.gram * counts[:, None] * counts + np.eye(len(counts))
        matrix = counts[:, None] * cho_solve(cho_factor(system, overwrite_a=True), counts[:, None] * self.right)
        matrix *= reach
        return FeatureMap(matrix.astype(np.float32), (self.mean - self.mean_row @ matrix).astype(np.float32))


@dataclass(frozen=True, eq=False)
class _Fold:
    """Some items as if nobody had them, and users as they are without them."""

    others: _Regression
    rows: sp.csr_matrix
    vectors: FloatArray
    weights: FloatArray
    users: FloatArray
    truth: NDArray[np.bool_]
    """Users × items."""

    def judged(self, counts: NDArray[np.float64]) -> float:
        """Of the first items that users are shown, how many they have; all that could be is 1."""
        scores = self.users @ self.others.solved(counts).vectors(self.rows).T
        shown = min(_SHOWN, max(1, scores.shape[1] // 10))
        best = np.argpartition(-scores, shown - 1, axis=1)[:, :shown]
        hits = np.take_along_axis(self.truth, best, axis=1).sum(axis=1)
        return float((hits / np.minimum(self.truth.sum(axis=1), shown)).mean())

    def fit(self, counts: NDArray[np.float64]) -> tuple[float, float]:
        """Sums of products of scores, told and true, about the mean: told with true ones, and told with told ones."""
        told = self.users @ (self.others.solved(counts).vectors(self.rows) - self.others.mean).T
        true = self.users @ (self.vectors - self.others.mean).T
        return float((told * true * self.weights).sum()), float((told * told * self.weights).sum())


def _reach(folds: Sequence[_Fold], counts: NDArray[np.float64]) -> float:
    """What told scores are to be multiplied by, to be those of items that people have: by least squares."""
    sums = [fold.fit(counts) for fold in folds]
    both, told = sum(first for first, _ in sums), sum(second for _, second in sums)
    return max(both / told, 1.0) if told > 0 else 1.0


def _folds(
    rows: sp.csr_matrix, vectors: FloatArray, weights: FloatArray, histories: Interactions, pooling: Pooling
) -> list[_Fold]:
    rng = fixed_generator()
    fold_of = rng.integers(0, _FOLDS, len(vectors))
    pairs = histories.to_scipy()
    found = []
    for number in range(_FOLDS):
        hidden = (fold_of == number) & (weights > 0)
        rest = histories.subset(~hidden[histories.items])
        able = np.flatnonzero((rest.user_degrees > 0) & (rest.user_degrees < histories.user_degrees))
        if not (len(able) and weights[~hidden].any()):
            continue
        eval_users = np.sort(rng.permutation(able)[: max(1, _MOST_SCORES // int(hidden.sum()))])
        found.append(
            _Fold(
                _Regression.of(rows[~hidden], vectors[~hidden], weights[~hidden]),
                rows[hidden],
                vectors[hidden],
                weights[hidden],
                pooling.vectors(rest.of_users(eval_users), vectors.__getitem__, vectors.shape[1]),
                (pairs[eval_users][:, np.flatnonzero(hidden)] > 0).toarray(),
            )
        )
    return found
