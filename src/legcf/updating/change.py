# SPDX-License-Identifier: Apache-2.0
"""Measure how much of what an item is learnt from is new: this decides whether it is solved again."""

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import inverse_power
from legcf.data.interactions import Interactions

RESOLVE_SHARE = 0.1
"""From this share on an item is solved again. Chosen on validation pairs of movielens-small and ml-1m with a
tenth of the pairs new: 0.05 is no better, 0.2 loses up to five parts in a hundred (benchmarks/bench_update.py
--thresholds)."""


def new_share(train: Interactions, added: Interactions) -> NDArray[np.float64]:
    """Return for each item the share of Σ_u d_u⁻¹ · (items of u), over its users u, that comes from new pairs.

    A user who is new to the item counts with all of its items, another one with those that are new to it: an item whose
    neighbours have changed has changed as well. 1 for a new item, 0 for one without pairs.
    """
    per_item = inverse_power(train.user_degrees, 1.0)
    all_of_user = per_item * train.user_degrees
    new_of_user = per_item * added.user_degrees
    added_users = added.users()
    whole = _per_item(train, all_of_user[train.users()])
    by_known = _per_item(train, new_of_user[train.users()]) - _per_item(added, new_of_user[added_users])
    fresh = _per_item(added, all_of_user[added_users]) + by_known
    return np.divide(fresh, whole, out=np.zeros_like(whole), where=whole > 0)


def _per_item(pairs: Interactions, values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.bincount(pairs.items, values, minlength=pairs.num_items).astype(np.float64)
