# SPDX-License-Identifier: Apache-2.0
"""The lists of changed items, solved again; all others stay as they are."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.core.config import RankingConfig
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.ridge import find_candidates, solve, strongest
from legcf.ranking.selection_policy import SelectionPolicy


def renewed_lists(
    lists: ItemLists, train: Interactions, changed: NDArray[np.bool_], settings: RankingConfig, entries: int
) -> ItemLists:
    """Lists of `entries` in all, in which nothing is new but what speaks for the changed items."""
    pairs = lists.pairs.widened(train.num_items, train.num_items)
    stay = _largest(lists.weights, ~changed[pairs.items], entries)
    by_item = train.transposed()
    count = SelectionPolicy.for_catalogue(train.num_items).update_candidates
    ridges = (settings.list_ridge,)
    candidates = find_candidates(train, count, by_item, np.flatnonzero(changed))
    solved = solve(train, candidates, ridges, settings.list_user_power, by_item)
    room = entries - int(stay.sum())
    if room < candidates.num_pairs:
        kept = strongest(candidates, solved.gains[0], room)
        solved = solve(train, kept, ridges, settings.list_user_power, by_item)
    new = solved.lists(0, lists.user_power)
    weights = _nearest(new.weights * np.float32(lists.scale), lists.weights)
    old_keys, new_keys = pairs.keys()[stay], new.pairs.keys()
    order = np.argsort(np.concatenate([old_keys, new_keys]), kind="stable")
    together = pairs.subset(stay).joined(new.pairs)
    return replace(lists, pairs=together, weights=np.concatenate([lists.weights[stay], weights])[order])


def _largest(weights: FloatArray, allowed: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Of the allowed ones, the `count` with the largest weights."""
    if int(allowed.sum()) <= count:
        return allowed
    order = np.argsort(np.where(allowed, -np.abs(weights), np.inf), kind="stable")[:count]
    chosen = np.zeros_like(allowed)
    chosen[order] = True
    return chosen


def _nearest(weights: FloatArray, stored: FloatArray) -> FloatArray:
    """The weights on the levels that a file has for those that are stored already."""
    levels = np.unique(stored)
    if len(levels) < 2:
        return weights
    above = np.clip(np.searchsorted(levels, weights), 1, len(levels) - 1)
    lower, upper = levels[above - 1], levels[above]
    nearest: FloatArray = np.where(weights - lower < upper - weights, lower, upper)
    return nearest
