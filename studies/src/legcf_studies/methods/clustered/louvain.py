# SPDX-License-Identifier: Apache-2.0
"""Find communities of users and items by Louvain's method with a resolution.

Blondel et al., "Fast unfolding of communities in large networks", 2008, on the modularity of a bipartite graph (Barber,
Physical Review E 2007): Q = Σ_{u, i together} (A_ui − γ d_u d_i / m). Nodes move to the neighbouring community that
gains most, in a drawn order, until a pass gains little; communities then become the nodes of a smaller graph.
"""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from legcf.core.arrays import IntArray, Positions
from legcf.core.jit import njit
from legcf.data.interactions import Interactions
from legcf.graph.adjacency import bipartite

Degrees = NDArray[np.float64]
_LEAST_GAIN = 1e-3  # of a pass over the nodes, as a share of all pairs; scikit-network has the same default


def louvain(train: Interactions, resolution: float, rng: np.random.Generator) -> IntArray:
    """Return the community of every user, then of every item; one without pairs is alone."""
    graph = bipartite(train)
    users = np.concatenate([train.user_degrees, np.zeros(train.num_items)])
    items = np.concatenate([np.zeros(train.num_users), train.item_degrees])
    found = np.arange(graph.shape[0], dtype=np.int32)
    scale = resolution / max(train.num_pairs, 1)
    while True:
        label = np.arange(graph.shape[0], dtype=np.int32)
        order = rng.permutation(graph.shape[0])
        least = _LEAST_GAIN * train.num_pairs
        moved = _move(graph.indptr, graph.indices, graph.data, users, items, order, label, scale, least)
        names, label = np.unique(label, return_inverse=True)
        found = label[found].astype(np.int32)
        if not moved or len(names) == len(label):
            return found
        graph, users, items = _merged(graph, users, items, label, len(names))


def _merged(
    graph: sp.csr_matrix, users: Degrees, items: Degrees, label: Positions, count: int
) -> tuple[sp.csr_matrix, Degrees, Degrees]:
    """Make communities the nodes; edges inside them gain nothing by a move and are left out."""
    size = len(label)
    members = sp.csr_matrix((np.ones(size, np.float32), (label, np.arange(size))), (count, size))
    merged = (members @ graph @ members.T).tocsr()
    merged.setdiag(0)
    merged.eliminate_zeros()
    return merged, *(np.bincount(label, degrees, count).astype(np.float64) for degrees in (users, items))


@njit(cache=True)
def _move(indptr, indices, data, users, items, order, label, scale, least):  # type: ignore[no-untyped-def]
    """Move nodes until a pass gains less than `least`; return whether any has moved."""
    size = len(label)
    all_users, all_items, edges = users.copy(), items.copy(), np.zeros(size)
    near = np.empty(size, np.int32)
    any_moved = False
    while True:
        gained = 0.0
        for node in order:
            count, home = 0, label[node]
            for edge in range(indptr[node], indptr[node + 1]):
                other = label[indices[edge]]
                if edges[other] == 0:
                    near[count] = other
                    count += 1
                edges[other] += data[edge]
            all_users[home] -= users[node]
            all_items[home] -= items[node]
            stays = edges[home] - scale * (users[node] * all_items[home] + items[node] * all_users[home])
            best, target = stays, home
            for position in range(count):
                other = near[position]
                gain = edges[other] - scale * (users[node] * all_items[other] + items[node] * all_users[other])
                if gain > best:
                    best, target = gain, other
                edges[other] = 0
            edges[home] = 0
            all_users[target] += users[node]
            all_items[target] += items[node]
            if target != home:
                label[node] = target
                gained += best - stays
                any_moved = True
        if gained <= least:
            return any_moved
