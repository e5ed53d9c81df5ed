# SPDX-License-Identifier: Apache-2.0
"""Weigh the items of a history by their order: half as much every so many items from the last one. Numpy only."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, IntArray, Positions
from legcf.data.interactions import Interactions

_LEAST = 1e-5  # of the newest item's weight; a model file tells weights above 1e-6 apart


def recent(pairs: Interactions, order: Interactions, half_life: float) -> Interactions:
    """Return the pairs weighed by how many of the user's pairs are newer; `order` is `Dataset.order`."""
    assert order.weights is not None
    positions = order.weights[np.searchsorted(order.keys(), pairs.keys())]
    users = pairs.users()
    newer = np.empty(pairs.num_pairs, dtype=np.int64)
    newer[np.lexsort((-positions, users))] = np.arange(pairs.num_pairs) - pairs.indptr[users]
    return replace(pairs, weights=_weights(newer, half_life))


def recent_profile(
    known: Positions, weights: FloatArray | None, news: Positions, half_life: float
) -> tuple[IntArray, FloatArray]:
    """Return a history and how much each item counts, with mean 1, where `news` follow what was known, oldest first.

    Without `weights` what was known has no order, and counts as its newest item.
    """
    last, positions = np.unique(news[::-1], return_index=True)  # of an item that comes twice, the last time counts
    before = np.ones(len(known)) if weights is None else weights / weights.max(initial=_LEAST)
    newer = np.argsort(np.argsort(positions))
    items = np.concatenate([known, last]).astype(np.int32)
    values = np.concatenate([before * 2.0 ** (-len(last) / half_life), _weights(newer, half_life)])
    again = np.isin(items, last)
    again[len(known) :] = False
    items, values = items[~again], np.maximum(values[~again], _LEAST)
    order = np.argsort(items)
    return items[order], (values[order] / values.mean()).astype(np.float32) if len(items) else np.zeros(0, np.float32)


def _weights(newer: NDArray[np.int64], half_life: float) -> FloatArray:
    return np.maximum(2.0 ** (-newer / half_life), _LEAST).astype(np.float32)
