# SPDX-License-Identifier: Apache-2.0
"""Small graphs for tests, and the plain way to compute with them."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from legcf.assignment.assignment import Assignment
from legcf.data.interactions import Dataset, Interactions
from legcf.testing.graphs import COMMUNITIES, graphs, interactions, planted, random_interactions

__all__ = [
    "COMMUNITIES", "assigned_graphs", "csr", "dense_bipartite", "dense_expanded", "dense_normalised", "graphs",
    "interactions", "layer_mean", "planted", "random_interactions", "write_folder",
]  # fmt: skip


@st.composite
def assigned_graphs(draw: st.DrawFn) -> tuple[Interactions, Assignment]:
    """A graph and an assignment with repeated, unused and zero places."""
    train = draw(graphs())
    entities = train.num_users + train.num_items
    num_buckets = draw(st.integers(1, 5))
    t = draw(st.integers(1, num_buckets))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    indices = rng.integers(0, num_buckets, (entities, t), dtype=np.int32)
    weights = rng.random((entities, t)).astype(np.float32)
    weights[rng.random((entities, t)) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = 0
    return train, Assignment(indices, weights, num_buckets)


def dense_normalised(adjacency: np.ndarray) -> np.ndarray:
    """D^-1/2 A D^-1/2 the plain way, in float64."""
    degrees = adjacency.sum(axis=1)
    scale = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)
    return scale[:, None] * adjacency * scale[None, :]


def dense_bipartite(train: Interactions) -> np.ndarray:
    relation = train.to_scipy().toarray().astype(np.float64)
    users, items = relation.shape
    return np.block([[np.zeros((users, users)), relation], [relation.T, np.zeros((items, items))]])


def dense_expanded(adjacency: np.ndarray, assignment: np.ndarray) -> np.ndarray:
    buckets = assignment.shape[1]
    return np.block([[adjacency, assignment], [assignment.T, np.zeros((buckets, buckets))]])


def layer_mean(operator: np.ndarray, rows: np.ndarray, layers: int) -> np.ndarray:
    """1/(L+1) Σ Â^l E0, a layer after the other."""
    total = current = rows.astype(np.float64)
    for _ in range(layers):
        current = operator @ current
        total = total + current
    return total / (layers + 1)


def write_folder(dataset: Dataset, folder: Path) -> Path:
    """As a LightGCN folder; validation pairs go to test.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, parts in (("train", (dataset.train,)), ("test", (dataset.validation, dataset.test))):
        lines = [
            f"{user} {' '.join(str(item) for part in parts for item in part.of(user))}".strip()
            for user in range(dataset.num_users)
            if any(len(part.of(user)) for part in parts)
        ]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


def csr(dense: np.ndarray) -> sp.csr_matrix:
    return sp.csr_matrix(dense.astype(np.float32))
