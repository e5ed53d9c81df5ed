# SPDX-License-Identifier: Apache-2.0
"""Turn the graph into those that other backbones than LightGCN travel on."""

import numpy as np
import scipy.sparse as sp

from legcf.core.arrays import inverse_power
from legcf.graph.adjacency import csr, degrees


def row_normalised(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """Return D^-1 A: every node takes the weighted mean of its neighbours, 0 without any."""
    scale = inverse_power(degrees(adjacency), 1.0)
    data = adjacency.data * np.repeat(scale, np.diff(adjacency.indptr))
    return csr(data.astype(np.float32), adjacency.indices, adjacency.indptr, adjacency.shape)


def with_self_loops(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """Return A + I."""
    looped = adjacency + sp.identity(adjacency.shape[0], dtype=np.float32, format="csr")
    return csr(looped.data, looped.indices, looped.indptr, looped.shape)
