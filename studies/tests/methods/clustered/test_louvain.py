# SPDX-License-Identifier: Apache-2.0
"""Louvain's method on bipartite graphs: planted blocks, the resolution, and that moves raise modularity."""

import numpy as np

from legcf.data.interactions import Interactions
from legcf_studies.methods.clustered.louvain import louvain
from tests.helpers import planted


def blocks(count: int, size: int) -> Interactions:
    """Complete blocks of users and items, with one pair from each to the next."""
    pairs = np.kron(np.eye(count, dtype=int), np.ones((size, size), dtype=int))
    pairs[np.arange(count) * size, (np.arange(count) + 1) % count * size] = 1
    items = np.concatenate([np.flatnonzero(row) for row in pairs]).astype(np.int32)
    return Interactions(np.concatenate([[0], np.cumsum(pairs.sum(axis=1))]), items, count * size)


def modularity(train: Interactions, labels: np.ndarray, resolution: float) -> float:
    pairs = train.to_scipy().toarray()
    together = labels[: train.num_users, None] == labels[train.num_users :]
    expected = np.outer(pairs.sum(axis=1), pairs.sum(axis=0)) / pairs.sum()
    return float(((pairs - resolution * expected) * together).sum() / pairs.sum())


def test_it_finds_planted_blocks() -> None:
    train = blocks(5, 6)
    labels = louvain(train, 1.0, np.random.default_rng(0))
    expected = np.tile(np.repeat(np.arange(5), 6), 2)
    assert len(np.unique(labels)) == len(np.unique(np.stack([labels, expected]), axis=1).T) == 5


def test_a_higher_resolution_gives_more_communities_and_the_seed_decides() -> None:
    train = planted(120, 100).train
    found = {gamma: louvain(train, gamma, np.random.default_rng(1)) for gamma in (0.1, 1.0, 5.0, 50.0)}
    counts = [len(np.unique(labels)) for labels in found.values()]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    assert np.array_equal(found[5.0], louvain(train, 5.0, np.random.default_rng(1)))


def test_its_modularity_is_that_of_the_best_known_partition_or_more() -> None:
    train = blocks(4, 5)
    alone = np.arange(40)
    labels = louvain(train, 1.0, np.random.default_rng(3))
    assert modularity(train, labels, 1.0) >= modularity(train, np.tile(np.repeat(np.arange(4), 5), 2), 1.0) - 1e-9
    assert modularity(train, labels, 1.0) > modularity(train, alone, 1.0)
