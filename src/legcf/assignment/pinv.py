# SPDX-License-Identifier: Apache-2.0
"""Solve the paper's closed form (Eq. 10–14): S = H_full · pinv(H_meta) by SVD, t largest entries of a row, S ≥ 0."""

import numpy as np

from legcf.assignment.assignment import Assignment
from legcf.assignment.matching_pursuit import DEFAULT_MEMORY_CAP_MB, rows_within
from legcf.assignment.update import refitted
from legcf.core.arrays import FloatArray


def solve(
    vectors: FloatArray, dictionary: FloatArray, t: int, memory_cap_mb: float = DEFAULT_MEMORY_CAP_MB
) -> Assignment:
    """Solve S a batch of dense rows at a time, each cut to t entries before the next is made."""
    # Singular values below the precision of float32 are noise, whose inverse would swamp everything.
    noise = max(dictionary.shape) * float(np.finfo(np.float32).eps)
    inverse = np.linalg.pinv(dictionary.astype(np.float64), rcond=noise).astype(np.float32)
    num_buckets = len(dictionary)
    indices = np.empty((len(vectors), t), dtype=np.int32)
    weights = np.empty((len(vectors), t), dtype=np.float32)
    rows = rows_within(memory_cap_mb / 4, num_buckets)  # the rows, their negative, and an int64 order of each
    for start in range(0, len(vectors), rows):
        block = slice(start, start + rows)
        dense = vectors[block] @ inverse
        largest = np.argpartition(-dense, t - 1, axis=1)[:, :t]
        kept = np.take_along_axis(dense, largest, axis=1)
        order = np.argsort(-kept, axis=1, kind="stable")
        indices[block] = np.take_along_axis(largest, order, axis=1)
        weights[block] = np.maximum(np.take_along_axis(kept, order, axis=1), 0)
    return Assignment(indices, weights, num_buckets)


def solve_and_refit(
    vectors: FloatArray, dictionary: FloatArray, t: int, memory_cap_mb: float = DEFAULT_MEMORY_CAP_MB
) -> Assignment:
    """Choose meta-embeddings by the closed form, and set their weights by least squares.

    With more meta-embeddings than columns (c > d) the pseudo-inverse gives S · P, P a projection whose diagonal is d/c
    on average. Its largest entries still name the right meta-embeddings, but what is left of their size is about that
    share.
    """
    return refitted(vectors, dictionary, solve(vectors, dictionary, t, memory_cap_mb), memory_cap_mb)
