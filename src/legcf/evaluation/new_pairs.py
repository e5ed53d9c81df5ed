# SPDX-License-Identifier: Apache-2.0
"""Data that a model was not trained on, in its numbers: what it can be measured by."""

import numpy as np

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions


def new_pairs(dataset: Dataset, users: IdMap, items: IdMap, seen: Interactions) -> tuple[Interactions, dict[str, int]]:
    """The pairs of a dataset (its test part, if it has one) that a model of these ids has not seen, and what was left
    out of them."""
    asked = dataset.test if dataset.test.num_pairs else dataset.known
    user_at, item_at = users.find_all(dataset.users), items.find_all(dataset.items)
    of_users, of_items = user_at[asked.users()], item_at[asked.items]
    known = (of_users >= 0) & (of_items >= 0)
    found = Interactions.from_pairs(of_users[known], of_items[known], len(users), len(items))
    kept = ~np.isin(found.keys(), seen.keys())
    told = {
        "pairs": int(kept.sum()),
        "unknown_users": int((user_at[np.unique(asked.users())] < 0).sum()),
        "unknown_items": int((item_at[np.unique(asked.items)] < 0).sum()),
        "unknown_pairs": asked.num_pairs - found.num_pairs,
        "trained_pairs": found.num_pairs - int(kept.sum()),
    }
    if not told["pairs"]:
        raise UserError(
            f"{dataset.name} has no pair to measure the model by: of {asked.num_pairs:,} it was trained on"
            f" {told['trained_pairs']:,}, and {told['unknown_pairs']:,} have a user or item that it does not know."
        )
    return found.subset(kept), told
