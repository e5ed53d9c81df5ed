# SPDX-License-Identifier: Apache-2.0
"""Turn a factorisation into item vectors whose sums over histories rank as its users do."""

import numpy as np
from numpy.typing import NDArray

from legcf.assignment.dictionary import balance
from legcf.core.arrays import FloatArray
from legcf.data.interactions import Interactions
from legcf.graph.adjacency import bipartite, normalised
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.pooling import Pooling

_MAP_RIDGE = 1e-3  # of the mean of the Gram matrix's diagonal; not measured
HISTORY_POWER = 0.5  # an item of a history weighs its degree to minus this, as `normalised` has it
_METRIC_FLOOR = 1e-3  # of the largest eigenvalue; not measured


def linear_map(rows: FloatArray, targets: FloatArray) -> NDArray[np.floating]:
    """Return the W that makes rows · W ≈ targets, by least squares with a small ridge."""
    gram = rows.T.astype(np.float64) @ rows
    ridge = _MAP_RIDGE * np.trace(gram) / len(gram) or 1.0
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), rows.T.astype(np.float64) @ targets)


def history_metric(train: Interactions, items: FloatArray, users: FloatArray) -> FloatArray:
    """Return A (d × d) such that, with items · A for items, the normalised sums over histories act like these users.

    W with (sums · W) ≈ users is a least-squares fit; the scores it gives are sums · W · itemsᵀ, and W's symmetric,
    positive part is A · Aᵀ, one half for each side.
    """
    history = normalised(bipartite(train))[: train.num_users, train.num_users :]
    sums = history @ items
    fitted = linear_map(sums, users)
    values, directions = np.linalg.eigh((fitted + fitted.T) / 2)
    positive = np.maximum(values, values.max() * _METRIC_FLOOR)
    root: FloatArray = ((directions * np.sqrt(positive)) @ directions.T).astype(np.float32)
    return root


def history_items(train: Interactions, users: FloatArray, items: FloatArray) -> FloatArray:
    """Return item vectors whose normalised sums over histories act like these users, the widest directions first."""
    users, items, metric = balance(users, items)
    turned = (items * metric) @ history_metric(train, items * metric, users * metric)
    _, directions = np.linalg.eigh(turned.T.astype(np.float64) @ turned)
    rows: FloatArray = np.ascontiguousarray(turned @ directions[:, ::-1], dtype=np.float32)
    return rows


def history_ranking(train: Interactions, users: FloatArray, items: FloatArray) -> Ranking:
    """Return a ranking by `history_items`: no user has a vector but the sum of its history."""
    return pooled_ranking(train, history_items(train, users, items), HISTORY_POWER)


def pooled_ranking(train: Interactions, items: FloatArray, item_power: float) -> Ranking:
    """Return a ranking by these item vectors and their sums over histories."""
    pooling = Pooling(HISTORY_POWER, item_power, train.item_degrees)
    return Ranking(pooling.vectors(train, items.__getitem__, items.shape[1]), items, train, pooling=pooling)
