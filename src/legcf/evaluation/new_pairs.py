# SPDX-License-Identifier: Apache-2.0
"""Translate data that a model was not trained on into its indices, to measure it by."""

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions


def new_pairs(dataset: Dataset, users: IdMap, items: IdMap, seen: Interactions) -> tuple[Interactions, dict[str, int]]:
    """Return the pairs of a dataset (its test part, if it has one) that a model of these ids has not seen.

    Also return counts of them and of the pairs that were left out.
    """
    offered = dataset.test if dataset.test.num_pairs else dataset.known
    user_index, item_index = _indices(dataset.users, users), _indices(dataset.items, items)
    of_users, of_items = user_index[offered.users()], item_index[offered.items]
    is_known = (of_users >= 0) & (of_items >= 0)
    known_pairs = Interactions.from_pairs(of_users[is_known], of_items[is_known], len(users), len(items))
    kept = ~np.isin(_keys(known_pairs), _keys(seen))
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


def _indices(ids: IdMap, known: IdMap) -> NDArray[np.int64]:
    """Return the index of each id in another map; −1 where it is not in it."""
    indices = (known.find(identifier) for identifier in ids.values.tolist())
    return np.array([-1 if index is None else index for index in indices], dtype=np.int64)


def _keys(pairs: Interactions) -> NDArray[np.int64]:
    return pairs.users().astype(np.int64) * pairs.num_items + pairs.items
