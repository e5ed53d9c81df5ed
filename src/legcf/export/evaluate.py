# SPDX-License-Identifier: Apache-2.0
"""Measure a model file on data, without the run that it was exported from."""

from collections.abc import Sequence

import numpy as np

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset, Interactions
from legcf.evaluation.evaluate import accuracy, new_pairs
from legcf.export.build import served_histories, served_ranking
from legcf.modelfile.served_model import ServedModel


def evaluate_file(model: ServedModel, dataset: Dataset, ks: Sequence[int]) -> dict[str, float]:
    """Return metrics, and counts of the pairs that they are of and of those that were left out.

    Where the file has users, their histories are its own, and every pair counts that it does not have. Where it has
    none, the training part of the data is what users have, and the test part counts.
    """
    if model.users is not None:
        if model.history is None:
            raise UserError("This model file has no histories, so it cannot say which pairs are new to it.")
        users, histories, offered = model.users, model.history.all(), dataset.whole()
    else:
        if not dataset.test.num_pairs:
            raise UserError(
                f"This model file stores no users, and {dataset.name} has no test pairs (protocol {dataset.protocol})"
                " beside those that users have: give data with a split, such as --protocol ratio."
            )
        users, offered, train = dataset.users, dataset, served_histories(model, dataset)
        same_users, item_index = np.arange(len(users)), model.items.find_all(dataset.items)
        histories = train.renumbered(same_users, item_index, len(users), len(model.items))
    seen = Interactions.empty(len(users), len(model.items)) if model.repeats else histories
    truth, counts = new_pairs(offered, users, model.items, seen)
    return {**accuracy(served_ranking(model, histories), truth, ks), **counts}
