# SPDX-License-Identifier: Apache-2.0
"""Find the leading right singular vectors of the degree-normalised training matrix: what a graph filter keeps of items.

Q of D_u^−½ R D_i^−½ ≈ P Σ Qᵀ, by block power iteration (Halko, Martinsson and Tropp, SIAM Review 2011). An item enters
a user by d_j^−½ q_j and is scored by d_i^c q_i: the ideal low-pass filter of GF-CF (Shen et al., CIKM 2021), where
c = ½ would be theirs.
"""

import numpy as np
import scipy.sparse as sp

from legcf.core import distributed
from legcf.core.arrays import FloatArray
from legcf.data.interactions import Interactions
from legcf.graph.adjacency import degree_normalised
from legcf.graph.operator import Operator

_MORE = 16  # columns beside those that are returned, so that the last of them are right as well
_ROUNDS = 3  # of the power iteration; not measured
_FEW_USERS = 1024  # up to whom exact vectors take less time
_LEAST_VALUE = 1e-5  # of the largest singular value: directions below it are nothing but rounding


def singular_vectors(
    train: Interactions, width: int, rng: np.random.Generator, rounds: int | None = None
) -> FloatArray:
    """Return Q (items × width), largest singular value first; fewer columns where the data has no more.

    `rounds` of the power iteration: the more, the nearer they are to the exact ones, which few users have without it.
    """
    if rounds is None and train.num_users <= _FEW_USERS:
        return _exact(degree_normalised(train), min(width, train.num_items, train.num_users))
    local = distributed.local_rows(distributed.row_partition(train.indptr))
    scaled = Operator(degree_normalised(train)[local], symmetric=False)
    columns = min(width + _MORE, train.num_items, train.num_users)
    basis: FloatArray = rng.standard_normal((train.num_items, columns)).astype(np.float32)
    for _ in range(rounds or _ROUNDS):
        basis = np.linalg.qr(distributed.all_reduce_sum(scaled.transposed.times(scaled.times(basis))))[0].astype(
            np.float32
        )
    image = scaled.times(basis)
    _, directions = np.linalg.eigh(distributed.all_reduce_sum(image.T @ image))
    vectors: FloatArray = np.ascontiguousarray((basis @ directions[:, ::-1])[:, :width], dtype=np.float32)
    return vectors


def _exact(scaled: sp.csr_matrix, width: int) -> FloatArray:
    """Return Q by the products of all users with each other: Q = Aᵀ P Σ⁻¹."""
    squares, directions = np.linalg.eigh((scaled @ scaled.T).toarray().astype(np.float64))
    values = np.sqrt(np.maximum(squares[::-1][:width], 0.0))
    vectors: FloatArray = (scaled.T @ directions[:, ::-1][:, :width]) / np.maximum(values, _LEAST_VALUE * values[0])
    return np.ascontiguousarray(vectors, dtype=np.float32)
