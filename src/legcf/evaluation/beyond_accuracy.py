# SPDX-License-Identifier: Apache-2.0
"""Measure lists beyond accuracy: how much of the catalogue they show, how little known the items are, how alike.

Each is a mean over users of lists cut at k; entries without an item (−1) do not count.
"""

import numpy as np
from numpy.typing import NDArray

from legcf.core import distributed
from legcf.core.arrays import FloatArray, IntArray
from legcf.core.jit import njit, prange
from legcf.ranking.popularity import at_least_one


def coverage(ranked: IntArray, num_items: int) -> float:
    """Return the share of all items that anybody is shown, by whichever process."""
    shown = np.zeros(num_items, dtype=np.int32)
    shown[ranked[ranked >= 0]] = 1
    return float(np.count_nonzero(distributed.all_reduce_sum(shown)) / max(num_items, 1))


def novelty(ranked: IntArray, popularity: NDArray[np.integer], num_users: int) -> float:
    """Return the information in meeting an item: log2 of one over its share of users (Vargas and Castells 2011)."""
    bits = np.log2(max(num_users, 1) / at_least_one(popularity))
    shown = ranked >= 0
    counts = shown.sum(axis=1)
    sums = np.where(shown, bits[np.maximum(ranked, 0)], 0.0).sum(axis=1)
    lists = counts > 0
    return float((sums[lists] / counts[lists]).mean()) if lists.any() else 0.0


def similarity(ranked: IntArray, vectors: FloatArray) -> float:
    """Return the mean cosine of two items of a list (intra-list similarity, Ziegler 2005); lists of one do not count.

    The square of a sum of unit vectors holds all pairs, each twice.
    """
    shortening = 1 / np.maximum(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)), np.float32(1e-12))
    means = np.empty(len(ranked), dtype=np.float64)
    _mean_cosines(ranked, vectors, shortening, means)
    values = means[~np.isnan(means)]
    return float(values.mean()) if len(values) else 0.0


@njit(cache=True, parallel=True)
def _mean_cosines(ranked, vectors, shortening, means):  # type: ignore[no-untyped-def]
    width = vectors.shape[1]
    for row in prange(len(ranked)):
        total = np.zeros(width, dtype=np.float64)
        alone, count = 0.0, 0
        for item in ranked[row]:
            if item >= 0:
                count += 1
                for k in range(width):
                    value = np.float64(vectors[item, k] * shortening[item])
                    total[k] += value
                    alone += value * value
        whole = 0.0
        for k in range(width):
            whole += total[k] * total[k]
        means[row] = (whole - alone) / (count * (count - 1)) if count > 1 else np.nan
