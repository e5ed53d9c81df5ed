"""From what is known of items to their vectors: a ridge regression on the items that people have."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from legcf.arrays import FloatArray
from legcf.ranking.popularity import trust

_RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """vector = features · matrix + start."""

    matrix: FloatArray
    start: FloatArray
    ridge: float

    def vectors(self, rows: sp.csr_matrix) -> FloatArray:
        vectors: FloatArray = (rows @ self.matrix + self.start).astype(np.float32)
        return vectors


def fit_map(
    rows: sp.csr_matrix, vectors: FloatArray, users: FloatArray, popularity: NDArray[np.integer], seed: int = 0
) -> FeatureMap:
    """The map for these items, each weighed by how far its vector is to be trusted.

    Its ridge is the one that does best on items it has not seen; errors count as they do in the scores of users.
    """
    weights = trust(popularity) * (popularity > 0)
    folds = np.random.default_rng(seed).integers(0, _FOLDS, len(vectors))
    metric = users.T.astype(np.float64) @ users / max(len(users), 1)
    missed = np.zeros(len(_RIDGES))
    for fold in range(_FOLDS):
        hidden = folds == fold
        if not (weights[hidden].any() and weights[~hidden].any()):
            continue
        for place, found in enumerate(_solved(rows[~hidden], vectors[~hidden], weights[~hidden], _RIDGES)):
            error = found.vectors(rows[hidden]) - vectors[hidden]
            missed[place] += float((weights[hidden] * np.einsum("ij,jk,ik->i", error, metric, error)).sum())
    best = _RIDGES[int(missed.argmin())]
    return _solved(rows, vectors, weights, (best,))[0]


def _solved(
    rows: sp.csr_matrix, vectors: FloatArray, weights: FloatArray, ridges: tuple[float, ...]
) -> list[FeatureMap]:
    """Both sides centred by their weighed means, so that the start is not shrunk."""
    total = max(float(weights.sum()), 1e-12)
    mean_row = np.asarray(rows.T @ weights).ravel().astype(np.float64) / total
    mean = (weights[:, None] * vectors).sum(axis=0, dtype=np.float64) / total
    weighed = sp.diags(weights) @ rows
    gram = np.asarray((rows.T @ weighed).todense(), dtype=np.float64) - total * np.outer(mean_row, mean_row)
    right = np.asarray(weighed.T @ vectors, dtype=np.float64) - total * np.outer(mean_row, mean)
    found = []
    for ridge in ridges:
        matrix = cho_solve(cho_factor(gram + ridge * np.eye(len(gram))), right)
        found.append(FeatureMap(matrix.astype(np.float32), (mean - mean_row @ matrix).astype(np.float32), ridge))
    return found
