# SPDX-License-Identifier: Apache-2.0
"""Rank by a filter of the item graph: polynomials of it applied to a history, and what its smoothest vectors keep.

    scores = D^b · (p(L) · D^−b r + q(L) · D^−b z),     z = D^g V Vᵀ D^−g r,     L = I − 2 R̃ᵀ R̃

R̃ = D_u^−½ R D_i^−½ are the training pairs, r is a history, D the items' numbers of users, V the leading right singular
vectors of R̃. The eigenvalues of L are in [−1, 1], so p and q are sums of Chebyshev polynomials (Clenshaw's rule). The
pairs themselves are needed to rank: a model file has none of them.
"""

from dataclasses import dataclass

import numpy as np

from legcf.core.arrays import FloatArray, inverse_power
from legcf.data.interactions import Interactions
from legcf.graph.adjacency import degree_normalised
from legcf.graph.operator import Operator

_TOGETHER = 64  # users filtered at once: rows of 256 bytes, so that both sides of Gowalla take 18 MB; not measured


@dataclass(frozen=True, eq=False)
class GraphFilter:
    """Hold the graph, the vectors and the coefficients of a filter."""

    graph: Operator
    """R̃, users × items."""
    degrees: FloatArray
    """D, how many users have each item."""
    vectors: FloatArray
    """V, items × width."""
    history_coefficients: tuple[float, ...]
    """p in Chebyshev polynomials."""
    vector_coefficients: tuple[float, ...]
    """q in Chebyshev polynomials."""
    power: float = 0.0
    """b, how much less popular items say and how much more they are shown."""
    vector_power: float = 0.5
    """g, the same for what the vectors keep."""

    @classmethod
    def of(
        cls,
        train: Interactions,
        vectors: FloatArray,
        coefficients: tuple[tuple[float, ...], tuple[float, ...]],
        power: float,
        vector_power: float,
    ) -> "GraphFilter":
        """Filter the graph of these pairs by p and q."""
        graph = Operator(degree_normalised(train), symmetric=False)
        degrees = train.item_degrees.astype(np.float32)
        return cls(graph, degrees, vectors, *coefficients, power=power, vector_power=vector_power)

    def score(self, histories: Interactions, scores: FloatArray) -> None:
        """Write the scores of all items for every history into the rows of `scores`."""
        for start in range(0, histories.num_users, _TOGETHER):
            block = np.arange(start, min(start + _TOGETHER, histories.num_users))
            history = histories.of_users(block).to_scipy().T.toarray().astype(np.float32)
            scores[start : start + len(block)] = self._filtered(history).T

    def _filtered(self, history: FloatArray) -> FloatArray:
        """Filter the columns of a matrix, items × users."""
        shown, said = self._scales(self.power)
        more, less = self._scales(self.vector_power)
        kept = more * (self.vectors @ (self.vectors.T @ (less * history)))
        inputs = [(self.history_coefficients, said * history), (self.vector_coefficients, said * kept)]
        terms = max(len(coefficients) for coefficients, _ in inputs)
        last, before = np.zeros_like(history), np.zeros_like(history)
        for term in range(terms - 1, -1, -1):
            moved = last - 2 * self.graph.transposed.times(self.graph.times(last)) if term < terms - 1 else last
            current = (2 if term else 1) * moved - before
            for coefficients, signal in inputs:
                if term < len(coefficients):
                    current += np.float32(coefficients[term]) * signal
            last, before = current, last
        result: FloatArray = shown * last
        return result

    def _scales(self, power: float) -> tuple[FloatArray, FloatArray]:
        """Return D^power and D^−power as columns, both 0 where nobody has the item."""
        less = inverse_power(self.degrees, power).astype(np.float32)[:, None]
        return inverse_power(less, 1.0).astype(np.float32), less
