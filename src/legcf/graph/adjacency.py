# SPDX-License-Identifier: Apache-2.0
"""Build the user–item graph and the paper's expanded graph directly as CSR; indices are int32 while they can be."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from legcf.core.arrays import inverse_power
from legcf.data.interactions import Interactions


def bipartite(train: Interactions, kept: NDArray[np.bool_] | None = None) -> sp.csr_matrix:
    """Return A = [[0, R], [Rᵀ, 0]] (Eq. 2), users first; `kept` marks the pairs that are edges, by default all."""
    if kept is not None:
        train = train.subset(kept)
    by_item = train.transposed()
    size = train.num_users + train.num_items
    indptr = np.concatenate([train.indptr, train.num_pairs + by_item.indptr[1:]])
    indices = np.concatenate([train.items + np.int32(train.num_users), by_item.items])
    return csr(np.ones(len(indices), dtype=np.float32), indices, indptr, (size, size))


def expanded(adjacency: sp.csr_matrix, assignment: sp.csr_matrix) -> sp.csr_matrix:
    """Join the meta-embeddings to the graph as nodes: A' = [[A, S], [Sᵀ, 0]] (Eq. 5)."""
    num_buckets = assignment.shape[1]
    nothing = sp.csr_matrix((num_buckets, num_buckets), dtype=np.float32)
    top = sp.hstack([adjacency, assignment], format="csr")
    joined = sp.vstack([top, sp.hstack([assignment.T.tocsr(), nothing], format="csr")], format="csr")
    return csr(joined.data, joined.indices, joined.indptr, joined.shape)


def normalised(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """Return D^-1/2 A D^-1/2 with 0 for nodes without edges (Eq. 7). Weights must not be negative."""
    scale = inverse_power(degrees(adjacency), 0.5)
    rows = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    data = adjacency.data * (scale[rows] * scale[adjacency.indices])
    return csr(data.astype(np.float32), adjacency.indices, adjacency.indptr, adjacency.shape)


def degree_normalised(train: Interactions) -> sp.csr_matrix:
    """Return D_u^-1/2 R D_i^-1/2, users × items, with 0 for those without pairs."""
    users, items = (sp.diags(inverse_power(counts, 0.5)) for counts in (train.user_degrees, train.item_degrees))
    return (users @ train.to_scipy() @ items).tocsr().astype(np.float32)


def degrees(adjacency: sp.csr_matrix) -> np.ndarray:
    """Return weighted row sums in float64, so that they do not depend on summation order."""
    rows = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    return np.bincount(rows, weights=adjacency.data, minlength=adjacency.shape[0])


def csr(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> sp.csr_matrix:
    kind = index_type(len(indices))
    return sp.csr_matrix((data, indices.astype(kind), indptr.astype(kind)), shape=shape, copy=False)


def index_type(entries: int) -> type[np.int32] | type[np.int64]:
    """Return a type that can count the entries of a matrix."""
    return np.int32 if entries < 2**31 else np.int64


def one_more_each(indptr: NDArray[np.integer], rows: int) -> NDArray[np.int64]:
    """Return the row pointers of a matrix with further rows below, each of one entry."""
    return np.concatenate([indptr.astype(np.int64), int(indptr[-1]) + 1 + np.arange(rows, dtype=np.int64)])
