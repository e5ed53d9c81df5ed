# SPDX-License-Identifier: Apache-2.0
"""Turn a factorisation into item vectors whose sums over histories rank as its users do."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legcf.assignment.dictionary import balance
from legcf.core.arrays import FloatArray, gram
from legcf.data.interactions import Interactions
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.pooling import Pooling
from legcf.ranking.tables.pooling_numba import pooled_users

_MAP_RIDGE = 1e-3  # of the mean of the Gram matrix's diagonal; not measured
HISTORY_POWER = 0.5  # an item of a history weighs its degree to minus this, as in the normalised graph
_METRIC_FLOOR = 1e-3  # of the largest eigenvalue; not measured


def linear_map(rows: FloatArray, targets: FloatArray) -> NDArray[np.floating]:
    """Return the W that makes rows · W ≈ targets, by least squares with a small ridge."""
    products = gram(rows)
    ridge = _MAP_RIDGE * np.trace(products) / len(products) or 1.0
    return np.linalg.solve(products + ridge * np.eye(len(products)), gram(rows, targets))


def history_metric(train: Interactions, items: FloatArray, users: FloatArray) -> FloatArray:
    """Return A (d × d) such that, with items · A for items, the normalised sums over histories act like these users.

    W with (sums · W) ≈ users is a least-squares fit; the scores it gives are sums · W · itemsᵀ, and W's symmetric,
    positive part is A · Aᵀ, one half for each side.
    """
    sums = pooled_users(Pooling(HISTORY_POWER, HISTORY_POWER, train.item_degrees), replace(train, weights=None), items)
    fitted = linear_map(sums, users)
    values, directions = np.linalg.eigh((fitted + fitted.T) / 2)
    positive = np.maximum(values, values.max() * _METRIC_FLOOR)
    root: FloatArray = ((directions * np.sqrt(positive)) @ directions.T).astype(np.float32)
    return root


def history_items(train: Interactions, users: FloatArray, items: FloatArray) -> FloatArray:
    """Return item vectors whose normalised sums over histories act like these users, the widest directions first."""
    users, items, metric = balance(users, items)
    users *= metric
    items *= metric
    turned: FloatArray = items @ history_metric(train, items, users)
    del users, items  # three tables in memory are enough
    return widest_first(turned)


def widest_first(rows: FloatArray) -> FloatArray:
    """Return the rows with their columns turned to their principal directions, the widest first."""
    _, directions = np.linalg.eigh(gram(rows, exact=False))  # inner products stay, however exact they are
    turned: FloatArray = rows @ np.ascontiguousarray(directions[:, ::-1], dtype=np.float32)
    return turned


def history_ranking(train: Interactions, users: FloatArray, items: FloatArray) -> Ranking:
    """Return a ranking by `history_items`: no user has a vector but the sum of its history."""
    return pooled_ranking(train, history_items(train, users, items), HISTORY_POWER, train)


def pooled_ranking(train: Interactions, items: FloatArray, item_power: float, histories: Interactions) -> Ranking:
    """Return a ranking by these item vectors and their sums over histories, which may be those of some users alone."""
    pooling = Pooling(HISTORY_POWER, item_power, train.item_degrees)
    users = pooled_users(pooling, histories, items)
    return Ranking(users, items, histories, pooling=pooling, popularity=train.item_degrees)
