# SPDX-License-Identifier: Apache-2.0
"""Fit the map from features of users to starting profiles: vectors for people of whom no item is known.

What is mapped to is the vector u that restores what a user has best, V u ≈ y for the vectors V of all items, so that
the mean of all users ranks about as popularity does. Users who are held out choose the weights of the columns, and
whether the map is of use at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.core.hill_climb import climb
from legcf.core.random_streams import fixed_generator
from legcf.data.interactions import Interactions
from legcf.features.encoder import FeatureMap
from legcf.features.mapping import FOLDS, Regression, chosen_weights, found_share

_RIDGE = 1e-3  # of the vectors that restore histories, in units of the mean of the diagonal of VᵀV; not measured
_MOST_SCORES = 8_000_000  # of a fold, which bound its users; not measured


def fit_user_map(
    rows: sp.csr_matrix, widths: Sequence[int], items: FloatArray, bias: FloatArray | None, histories: Interactions
) -> tuple[FeatureMap, dict[str, Any]]:
    """Return the map for these users, and what the metrics of a run say of it; users without features or items do not
    count. The map is all zero unless it is ahead of popularity in every fold: then users are shown what is popular.

    `widths` are those of the table's columns in a row, `items` the vectors that users are ranked by, with their `bias`.
    """
    able = np.flatnonzero((np.diff(rows.indptr) > 0) & (histories.user_degrees > 0))
    rows, histories = rows[able], histories.of_users(able)
    vectors, weights = _restoring(items, histories), np.ones(len(able), dtype=np.float32)
    folds = _folds(rows, vectors, weights, histories, items)
    feature_weights = chosen_weights(widths, [fold.score for fold in folds])
    added = np.zeros(len(items), dtype=np.float32) if bias is None else bias

    def found(length: float) -> NDArray[np.float64]:
        return np.array([fold.found(feature_weights, length, added) for fold in folds])

    # Scores without a bias rank alike at every length of vectors; beside one they must be long enough to be heard.
    long_enough = float(np.std(added) / max(np.std(vectors.mean(axis=0) @ items.T), 1e-9)) if folds else 0.0
    length = climb(lambda factor: float(found(factor).mean()), long_enough) if long_enough > 0 else 1.0
    mapping = Regression.of(rows, vectors, weights).solved(feature_weights).times(length)
    by_features, by_popularity = found(length), np.array([found_share(fold.popular, fold.truth) for fold in folds])
    is_used = len(folds) > 0 and bool(np.all(by_features > by_popularity))
    recall, popularity = (float(part.mean()) if len(part) else 0.0 for part in (by_features, by_popularity))
    facts = {"recall": recall, "popularity": popularity, "used": is_used}
    return (mapping if is_used else mapping.times(0.0)), facts


@dataclass(frozen=True, eq=False)
class _UserFold:
    """Hold some users as if nothing but their features were known."""

    others: Regression
    rows: sp.csr_matrix
    items: FloatArray
    popular: FloatArray
    """How many of the others have each item, a row for each user."""
    truth: NDArray[np.bool_]
    """Users × items."""

    def score(self, feature_weights: NDArray[np.float64]) -> float:
        """Return the mean share of a held-out user's items among the recommended ones."""
        return self.found(feature_weights, 1.0, np.zeros(len(self.items), dtype=np.float32))

    def found(self, feature_weights: NDArray[np.float64], length: float, bias: FloatArray) -> float:
        """Return what `score` does, with the vectors of users so many times as long, beside a bias of items."""
        users = self.others.solved(feature_weights).times(length).vectors(self.rows)
        return found_share(users @ self.items.T + bias, self.truth)


def _restoring(items: FloatArray, histories: Interactions) -> FloatArray:
    """Return the vectors u that restore histories by least squares: V u ≈ 1 for items of a user, else 0."""
    gram = items.T.astype(np.float64) @ items
    ridge = max(_RIDGE * float(np.trace(gram)) / len(gram), np.finfo(np.float64).tiny)
    owned = histories.to_scipy()
    owned.data[:] = 1
    right = np.asarray(owned @ items, dtype=np.float64)
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), right.T).T.astype(np.float32)


def _folds(
    rows: sp.csr_matrix, vectors: FloatArray, weights: FloatArray, histories: Interactions, items: FloatArray
) -> list[_UserFold]:
    rng = fixed_generator()
    fold_of = rng.integers(0, FOLDS, len(vectors))
    owned = histories.to_scipy() > 0
    folds = []
    for fold in range(FOLDS):
        hidden, rest = np.flatnonzero(fold_of == fold), np.flatnonzero(fold_of != fold)
        if not (len(hidden) and len(rest)):
            continue
        asked = np.sort(rng.permutation(hidden)[: max(1, _MOST_SCORES // len(items))])
        popular = np.asarray(owned[rest].sum(axis=0), dtype=np.float32)
        folds.append(
            _UserFold(
                Regression.of(rows[rest], vectors[rest], weights[rest]),
                rows[asked],
                items,
                np.broadcast_to(popular, (len(asked), len(items))),
                owned[asked].toarray(),
            )
        )
    return folds
