# SPDX-License-Identifier: Apache-2.0
"""Translate data that a model was not trained on into its indices, to measure it by."""

import numpy as np

from legcf.core.arrays import LongArray
from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions


def new_pairs(dataset: Dataset, users: IdMap, items: IdMap, seen: Interactions) -> tuple[Interactions, dict[str, int]]:
    """Return the pairs of a dataset (its test part, if it has one) that a model of these ids has not seen.

    Also return counts of them and of the pairs that were left out.
    """
    offered = dataset.test if dataset.test.num_pairs else dataset.known
    user_index, item_index = users.find_all(dataset.users), items.find_all(dataset.items)
    known_pairs = translated(offered, (user_index, len(users)), item_index, len(items))
    kept = ~np.isin(known_pairs.keys(), seen.keys())
    counts = {
        "pairs": int(kept.sum()),
        "unknown_users": int((user_index[np.unique(offered.users())] < 0).sum()),
        "unknown_items": int((item_index[np.unique(offered.items)] < 0).sum()),
        "unknown_pairs": offered.num_pairs - known_pairs.num_pairs,
        "trained_pairs": known_pairs.num_pairs - int(kept.sum()),
    }
    if not counts["pairs"]:
        raise UserError(
            f"{dataset.name} has no pair to measure the model by: of {offered.num_pairs:,} it was trained on"
            f" {counts['trained_pairs']:,}, and {counts['unknown_pairs']:,} have a user or item that it does not know."
        )
    return known_pairs.subset(kept), counts


def translated(
    pairs: Interactions, users: tuple[LongArray, int] | None, item_index: LongArray, num_items: int
) -> Interactions:
    """Return the pairs whose user and item have an index in the model, by these indices; −1 stands for none.

    `users` are the indices of users and how many users the model has; None: users keep their own.
    """
    user_index, num_users = (np.arange(pairs.num_users), pairs.num_users) if users is None else users
    of_users, of_items = user_index[pairs.users()], item_index[pairs.items]
    is_known = (of_users >= 0) & (of_items >= 0)
    weights = None if pairs.weights is None else pairs.weights[is_known]
    return Interactions.from_pairs(of_users[is_known], of_items[is_known], num_users, num_items, weights)
