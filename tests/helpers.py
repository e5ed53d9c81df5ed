# SPDX-License-Identifier: Apache-2.0
"""Small graphs for tests: random ones for algebra, and planted communities whose right ranking is known."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from legcf.assignment.assignment import Assignment
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions

COMMUNITIES = 4


def interactions(pairs: list[tuple[int, int]], num_users: int, num_items: int) -> Interactions:
    array = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return Interactions.from_pairs(array[:, 0], array[:, 1], num_users, num_items)


@st.composite
def graphs(draw: st.DrawFn) -> Interactions:
    """Any bipartite graph: users and items without pairs, several components, even no pairs at all."""
    num_users, num_items = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    pairs = draw(st.sets(st.tuples(st.integers(0, num_users - 1), st.integers(0, num_items - 1)), max_size=20))
    return interactions(list(pairs), num_users, num_items)


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


def random_interactions(num_users: int, num_items: int, density: float, seed: int) -> Interactions:
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((num_users, num_items)) < density)
    return Interactions.from_pairs(users, items, num_users, num_items)


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


def planted(num_users: int = 80, num_items: int = 80, seed: int = 0, cold: int = 0) -> Dataset:
    """User u and item i belong to the communities u % 4 and i % 4; a user has half of its community's items.

    Of the other half a third validates and the rest tests, so a perfect model shows exactly a user's own community.
    The last `cold` users and items have no pairs at all.
    """
    rng = np.random.default_rng(seed)
    parts: tuple[list[tuple[int, int]], ...] = ([], [], [])
    for user in range(num_users - cold):
        own = rng.permutation(np.arange(user % COMMUNITIES, num_items - cold, COMMUNITIES))
        half, third = len(own) // 2, len(own) // 2 + len(own) // 6
        for part, items in zip(parts, (own[:half], own[half:third], own[third:]), strict=True):
            part += [(user, int(item)) for item in items]
    train, validation, test = (interactions(part, num_users, num_items) for part in parts)
    users = IdMap.consecutive(num_users, "user")
    return Dataset("planted", "ratio", users, IdMap.consecutive(num_items, "item"), train, validation, test)


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
