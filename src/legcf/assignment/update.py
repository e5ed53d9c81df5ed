# SPDX-License-Identifier: Apache-2.0
"""Prepare and soften the update of S: what it is solved from where vectors are blocks of several layers side by side,
and updates that change less (new weights for the same meta-embeddings, or a mixture of old and new)."""

from collections.abc import Callable, Sequence

import numpy as np

from legcf.assignment.assignment import Assignment
from legcf.assignment.matching_pursuit import DEFAULT_MEMORY_CAP_MB, rows_within
from legcf.core.arrays import FloatArray

_SWEEPS = 50  # of coordinate descent; a row has few weights, so this is plenty
_RIDGE = 1e-6  # relative to the longest meta-embedding of a row; parts the weight among copies of one
_AGGREGATIONS: dict[str, Callable[[list[FloatArray]], FloatArray]] = {
    "mean": lambda blocks: np.mean(blocks, axis=0, dtype=np.float32),
    "concat": lambda blocks: np.concatenate(blocks, axis=1),
    "first": lambda blocks: blocks[0],
    "last": lambda blocks: blocks[-1],
}


def aggregated(vectors: FloatArray, widths: Sequence[int], how: str) -> FloatArray:
    """Return H · G; a single block stays what it is.

    Where H_full = S · H_meta, also H_full G = S · H_meta G for any linear map G, as long as both sides go through the
    same one. The paper asks for an "appropriate dimension aggregation" without naming it; the mean of the blocks is
    what LightGCN's readout does. (Their sum would give the same S.)
    """
    blocks = np.split(vectors, np.cumsum(widths)[:-1], axis=1)
    return np.ascontiguousarray(_AGGREGATIONS[how](blocks)) if len(blocks) > 1 else vectors


def refitted(
    vectors: FloatArray, dictionary: FloatArray, assignment: Assignment, memory_cap_mb: float = DEFAULT_MEMORY_CAP_MB
) -> Assignment:
    """Solve the non-negative weights that fit best with every entity's meta-embeddings left as they are."""
    weights = np.empty_like(assignment.weights)
    t = assignment.per_entity
    rows = rows_within(memory_cap_mb / 2, t * dictionary.shape[1])
    for start in range(0, len(vectors), rows):
        block = slice(start, start + rows)
        atoms = dictionary[assignment.indices[block]]
        gram = np.einsum("ntd,nsd->nts", atoms, atoms)
        target = np.einsum("ntd,nd->nt", atoms, vectors[block])
        weights[block] = _non_negative(gram, target)
    return Assignment(assignment.indices, weights, assignment.num_buckets)


def mixed(old: Assignment, new: Assignment, share: float) -> Assignment:
    """Return share · old + (1 − share) · new, the t largest weights of a row kept."""
    t = new.per_entity
    indices = np.concatenate([old.indices, new.indices], axis=1)
    weights = np.concatenate([old.weights * np.float32(share), new.weights * np.float32(1 - share)], axis=1)
    for entry in range(1, indices.shape[1]):  # a meta-embedding named twice is gathered in its first entry
        for earlier in range(entry):
            same = indices[:, earlier] == indices[:, entry]
            weights[same, earlier] += weights[same, entry]
            weights[same, entry] = 0
    largest = np.argsort(-weights, axis=1, kind="stable")[:, :t]
    return Assignment(
        np.take_along_axis(indices, largest, axis=1), np.take_along_axis(weights, largest, axis=1), new.num_buckets
    )


def _non_negative(gram: FloatArray, target: FloatArray) -> FloatArray:
    """Return argmin ½ wᵀGw − bᵀw over w ≥ 0 for many small problems at once.

    Where plain least squares is not negative it is the answer: near-copies among the meta-embeddings would take
    coordinate descent, which the other rows get, thousands of sweeps.
    """
    diagonal = np.arange(gram.shape[1])
    squares = gram[:, diagonal, diagonal].astype(np.float64)
    ridged = gram.astype(np.float64)
    ridged[:, diagonal, diagonal] += _RIDGE * squares.max(axis=1, keepdims=True, initial=0) + np.finfo(np.float32).tiny
    free = np.linalg.solve(ridged, target[:, :, None].astype(np.float64))[:, :, 0].astype(np.float32)
    negative = (free < 0).any(axis=1)
    weights = np.maximum(free, 0)
    weights[negative] = _descended(gram[negative], target[negative], weights[negative])
    return weights


def _descended(gram: FloatArray, target: FloatArray, weights: FloatArray) -> FloatArray:
    """Run coordinate descent from these weights."""
    for _ in range(_SWEEPS):
        for entry in range(weights.shape[1]):
            square = np.maximum(gram[:, entry, entry], 1e-12)
            rest = np.einsum("nt,nt->n", gram[:, entry], weights) - square * weights[:, entry]
            weights[:, entry] = np.maximum((target[:, entry] - rest) / square, 0)
    return weights
