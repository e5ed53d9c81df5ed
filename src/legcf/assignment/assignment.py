# SPDX-License-Identifier: Apache-2.0
"""Hold the assignment matrix S: at most t weighted meta-embeddings for every entity, stored as two N × t arrays."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from legcf.core.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True, eq=False)
class Assignment:
    """Hold S[p, indices[p, k]] = weights[p, k]; a weight of zero marks an unused entry."""

    indices: IntArray
    weights: FloatArray
    num_buckets: int

    @property
    def num_entities(self) -> int:
        return len(self.indices)

    @property
    def per_entity(self) -> int:
        """Return t, the number of entries in a row."""
        return int(self.indices.shape[1])

    def to_csr(self) -> "sp.csr_matrix":
        """Return S, N × c, float32, int32 indices while they can count; equal columns are summed, zeros left out."""
        import scipy.sparse as sp  # here: serving has no use for it

        if self.indices.size and not 0 <= int(self.indices.min()) <= int(self.indices.max()) < self.num_buckets:
            raise ValueError("an index of S lies outside the codebook")  # scipy would read beyond its arrays
        indptr = np.arange(0, self.indices.size + 1, self.per_entity, dtype=np.int64)
        matrix = sp.csr_matrix(
            (self.weights.ravel().copy(), self.indices.ravel().copy(), indptr),
            shape=(self.num_entities, self.num_buckets),
        )
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix

    def compose(self, codebook: FloatArray) -> FloatArray:
        """Return S · codebook (Eq. 1)."""
        rows: FloatArray = self.to_csr() @ codebook
        return rows

    def statistics(self) -> dict[str, float]:
        used = self.weights != 0
        values = self.weights[used]
        return {
            "buckets_used": len(np.unique(self.indices[used])),
            "weights_per_entity": float(used.sum() / max(self.num_entities, 1)),
            "weight_mean": float(values.mean()) if values.size else 0.0,
            "weight_max": float(values.max()) if values.size else 0.0,
        }


def relative_error(vectors: FloatArray, dictionary: FloatArray, assignment: Assignment) -> float:
    """Return ‖H_full − S·H_meta‖ / ‖H_full‖, computed in row blocks."""
    matrix = assignment.to_csr()
    missed = total = 0.0
    for start in range(0, len(vectors), 16384):
        block = vectors[start : start + 16384]
        missed += float(np.square(block - matrix[start : start + 16384] @ dictionary, dtype=np.float64).sum())
        total += float(np.square(block, dtype=np.float64).sum())
    return float(np.sqrt(missed / total)) if total else 0.0
