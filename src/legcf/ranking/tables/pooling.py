# SPDX-License-Identifier: Apache-2.0
"""Make users that are nothing but their histories. Numpy only."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, Positions, inverse_power
from legcf.data.interactions import Interactions

_BLOCK = 2**14  # pairs whose vectors stand in memory at once


@dataclass(frozen=True, eq=False)
class Pooling:
    """Sum the items of a user: h_u = n_u^−a · Σ_j d_j^−b h_j over the n_u items j of a user, which d_j users have.

    Where pairs have weights, an item counts by its weight, in units of the user's mean.
    """

    user_power: float
    item_power: float
    counts: NDArray[np.integer]
    """d_j"""

    @cached_property
    def item_weights(self) -> FloatArray:
        return inverse_power(self.counts, self.item_power).astype(np.float32)

    def vectors(self, histories: Interactions, items: Callable[[Positions], FloatArray], width: int) -> FloatArray:
        """Return a vector for each history, from the vectors that `items` returns; zero without a history."""
        sums = np.zeros((histories.num_users, width), dtype=np.float32)
        relative = histories.relative_weights
        # Cut between users, at about a block of pairs: a user's items stay together.
        cuts = np.unique(np.searchsorted(histories.indptr, np.arange(0, histories.num_pairs + _BLOCK, _BLOCK)))
        for first, last in zip(cuts[:-1].tolist(), np.minimum(cuts[1:], histories.num_users).tolist(), strict=True):
            filled = np.flatnonzero(histories.user_degrees[first:last]) + first
            if len(filled):
                start, stop = int(histories.indptr[first]), int(histories.indptr[last])
                some = histories.items[start:stop]
                weighed = items(some) * self.item_weights[some, None]
                if relative is not None:
                    weighed *= relative[start:stop, None]
                sums[filled] = np.add.reduceat(weighed, histories.indptr[filled] - start)
        sums *= self.user_scales(histories)[:, None]
        return sums

    def vector(self, history: Positions, vectors: FloatArray, relative: FloatArray | None = None) -> FloatArray:
        """Return the vector of one user from those of its items; `relative` says how much each counts (None: alike)."""
        weighed = vectors * self.item_weights[history, None]
        if relative is not None:
            weighed *= relative[:, None]
        pooled: FloatArray = weighed.sum(axis=0) * self._user_scale(len(history))
        return pooled

    def user_scales(self, histories: Interactions) -> FloatArray:
        """Return n_u^−a of everyone."""
        return inverse_power(histories.user_degrees, self.user_power).astype(np.float32)

    def parts(
        self, history: Positions, vectors: FloatArray, targets: FloatArray, relative: FloatArray | None = None
    ) -> FloatArray:
        """Return what each item of a history adds to the score of each target (history × targets)."""
        weights = self._user_scale(len(history)) * self.item_weights[history]
        return (vectors * (weights if relative is None else weights * relative)[:, None]) @ targets.T

    def _user_scale(self, count: int) -> np.float32:
        return np.float32(float(max(count, 1)) ** -self.user_power)
