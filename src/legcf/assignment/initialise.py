# SPDX-License-Identifier: Apache-2.0
"""Make the first assignment, rules I–III of the paper: an anchor of weight w*, the rest shared by random others."""

import numpy as np
from numpy.typing import NDArray

from legcf.assignment.assignment import Assignment


def from_anchors(
    anchors: NDArray[np.integer],
    num_buckets: int,
    t: int,
    anchor_weight: float,
    rng: np.random.Generator,
    with_replacement: bool = True,
) -> Assignment:
    """Return S[p, anchor_p] = w*, and t − 1 uniformly drawn others share 1 − w* (Section 3.4, I–III).

    With t = 1 the anchor alone carries weight 1. Drawn with replacement, an index may repeat; the repeated weights
    then add up, so every row sums to 1.
    """
    count = len(anchors)
    indices = np.empty((count, t), dtype=np.int32)
    weights = np.empty((count, t), dtype=np.float32)
    indices[:, 0] = anchors
    weights[:, 0] = anchor_weight if t > 1 and num_buckets > 1 else 1.0
    if t > 1:
        # Drawing from c − 1 indices and stepping over the anchor excludes it without rejection.
        others = _draw(rng, count, t - 1, num_buckets - 1, with_replacement)
        indices[:, 1:] = others + (others >= indices[:, :1])
        weights[:, 1:] = (1 - anchor_weight) / (t - 1)
    return Assignment(indices, weights, num_buckets)


def random_anchors(num_entities: int, num_buckets: int, rng: np.random.Generator) -> NDArray[np.int32]:
    return rng.integers(0, num_buckets, num_entities, dtype=np.int32)


def _draw(rng: np.random.Generator, count: int, width: int, limit: int, with_replacement: bool) -> NDArray[np.int32]:
    if not with_replacement and width * width > limit:
        # Rejection would hardly ever succeed: take the first of a shuffled list instead.
        every = np.arange(limit, dtype=np.int32)
        return (
            np.stack([rng.permutation(every)[:width] for _ in range(count)]) if count else every[:0].reshape(0, width)
        )
    drawn = rng.integers(0, limit, (count, width), dtype=np.int32)
    if with_replacement or width == 1:
        return drawn
    while True:
        ordered = np.sort(drawn, axis=1)
        repeated = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not repeated.size:
            return drawn
        drawn[repeated] = rng.integers(0, limit, (len(repeated), width), dtype=np.int32)
