# SPDX-License-Identifier: Apache-2.0
"""Compute the sampled softmax and its gradient, block by block of pairs. Numpy only."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray

_PAIRS_A_BLOCK = 512  # whose scores with 512 negatives, 1 MB, stay in a core's cache


@dataclass(frozen=True, eq=False)
class SoftmaxGradient:
    """Hold the loss of a batch of pairs, and its gradient at the vectors of users, positives and negatives."""

    value: float
    users: FloatArray
    positives: FloatArray
    negatives: FloatArray


def softmax_gradient(
    users: FloatArray,
    positives: FloatArray,
    negatives: FloatArray,
    clashes: NDArray[np.integer],
    weights: NDArray[np.float32],
    negative_weight: float,
) -> SoftmaxGradient:
    """Return the mean of −w ln(e^y / (e^y + n Σ e^y_negative)) over pairs of weight w, and its gradient.

    All pairs share the negatives. `clashes` has for each pair which of them is its own positive, or −1: it is left out.
    """
    scale = weights / np.float32(len(weights))
    right = np.einsum("ij,ij->i", users, positives)
    of_users, towards = np.empty_like(users), np.empty_like(right)
    of_negatives, value = np.zeros_like(negatives), 0.0
    for start in range(0, len(users), _PAIRS_A_BLOCK):
        some = slice(start, start + _PAIRS_A_BLOCK)
        scores = users[some] @ negatives.T
        clashing = np.flatnonzero(clashes[some] >= 0)
        scores[clashing, clashes[some][clashing]] = -np.inf
        highest = np.maximum(scores.max(axis=1), right[some])
        scores -= highest[:, None]
        np.exp(scores, out=scores)
        own = np.exp(right[some] - highest)
        total = own + np.float32(negative_weight) * scores.sum(axis=1)
        value += float(np.vdot(scale[some], np.log(total) - (right[some] - highest)))
        scores *= (np.float32(negative_weight) * scale[some] / total)[:, None]
        towards[some] = scale[some] * (own / total - 1)
        np.matmul(scores, negatives, out=of_users[some])
        of_negatives += scores.T @ users[some]
    of_users += towards[:, None] * positives
    return SoftmaxGradient(value, of_users, towards[:, None] * users, of_negatives)


def clashes_of(positives: NDArray[np.integer], negatives: NDArray[np.integer], rows: int) -> NDArray[np.int64]:
    """Return which of the shared negatives is a pair's own positive, −1 for none; both are numbers of `rows` rows."""
    column = np.full(rows, -1, dtype=np.int64)
    column[negatives] = np.arange(len(negatives))
    clashes: NDArray[np.int64] = column[positives]
    return clashes
