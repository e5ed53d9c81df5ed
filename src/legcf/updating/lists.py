# SPDX-License-Identifier: Apache-2.0
"""Solve the lists of changed items again; all others stay as they are."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.core.config import RankingConfig
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.recipe import ListFitter


def renewed_lists(
    lists: ItemLists, train: Interactions, changed: NDArray[np.bool_], settings: RankingConfig, entries: int
) -> ItemLists:
    """Return lists of `entries` in all, in which nothing is new but what recommends the changed items."""
    pairs = lists.pairs.widened(train.num_items, train.num_items)
    stay = lists.strongest(entries, among=~changed[pairs.items])
    new = ListFitter(train).lists_for(np.flatnonzero(changed), settings, entries - int(stay.sum()))
    weights = _nearest(new.weights * np.float32(lists.scale), lists.weights)
    old_keys, new_keys = pairs.keys()[stay], new.pairs.keys()
    order = np.argsort(np.concatenate([old_keys, new_keys]), kind="stable")
    together = pairs.subset(stay).joined(new.pairs)
    return replace(lists, pairs=together, weights=np.concatenate([lists.weights[stay], weights])[order])


def _nearest(weights: FloatArray, stored: FloatArray) -> FloatArray:
    """Round the weights to the levels that a file has for those that are stored already."""
    levels = np.unique(stored)
    if len(levels) < 2:
        return weights
    return levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, weights, side="right")]
