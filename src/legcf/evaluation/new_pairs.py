# SPDX-License-Identifier: Apache-2.0
"""Translate data that a model was not trained on into its indices, to measure it by."""

import numpy as np

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions


def new_pairs(dataset: Dataset, users: IdMap, items: IdMap, seen: Interactions) -> tuple[Interactions, dict[str, int]]:
    """Return the pairs of a dataset (its test part, if it has one) that a model of these ids has not seen.

    Also return counts of them and of the pairs that were left out.
    """
    offered = dataset.test if dataset.test.num_pairs else dataset.known
    user_index, item_index = users.find_all(dataset.users), items.find_all(dataset.items)
    known_pairs = offered.renumbered(user_index, item_index, len(users), len(items))
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
