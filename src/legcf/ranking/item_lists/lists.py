# SPDX-License-Identifier: Apache-2.0
"""Keep item lists: for every item that a user may have, the few items it speaks for and how strongly. Numpy only.

    score(u, i) = n_u^−p · Σ_{j ∈ N(u)} S_ji

A codebook makes items alike that are not; what it loses is particular to few items, so it is sparse. Nothing but S is
needed to rank: no other user's history, and a request costs the lengths of the lists of its items.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, LongArray, Positions, inverse_power
from legcf.data.interactions import Interactions, pair_keys
from legcf.ranking.tables.packing import bits_for, quantise_levels


def packed_bytes(entries: int, num_items: int, bits: int) -> int:
    """Return the bytes of so many entries: sorted keys take 2 + log2(keys / entries) bits each, weights `bits`."""
    if not entries:
        return 0
    return int(np.ceil(entries * (2 + np.log2(max(num_items**2 / entries, 1)) + bits) / 8))


def entries_within(byte_budget: float, num_items: int, bits: int) -> int:
    """Return how many entries of lists fit into so many bytes."""
    low, high = 0, num_items * max(num_items - 1, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if packed_bytes(middle, num_items, bits) <= byte_budget:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True, eq=False)
class ItemLists:
    """Hold S by the item of a history: row j has the items that j speaks for, in ascending order, and their weights.

    A `history` holds positions of items; `relative` says how much each counts, with mean 1 (None: all alike).
    """

    pairs: Interactions
    """Row j, column i: a generic CSR, whose rows are items too."""
    weights: FloatArray
    user_power: float = 0.5
    """p, how far long histories are shortened."""
    scale: float = 1.0
    """Factor already applied to the regression's weights to match the scale of the dot products; 0: unknown."""

    @classmethod
    def empty(cls, num_items: int, user_power: float = 0.5) -> "ItemLists":
        return cls(Interactions.empty(num_items, num_items), np.zeros(0, dtype=np.float32), user_power)

    @property
    def num_entries(self) -> int:
        return self.pairs.num_pairs

    @property
    def num_items(self) -> int:
        return self.pairs.num_items

    @property
    def lengths(self) -> LongArray:
        """Count the items that each item speaks for."""
        return self.pairs.row_lengths

    def scores(self, history: Positions, relative: FloatArray | None = None) -> FloatArray:
        """Return what the lists of a history add to the score of every item."""
        offsets, weights, _ = self._gathered(history, relative)
        sums = np.bincount(self.pairs.items[offsets], weights, self.num_items)
        return (self._user_scale(len(history)) * sums).astype(np.float32)

    def add_to(self, scores: FloatArray, history: Positions, relative: FloatArray | None = None) -> None:
        """Add the same to `scores` of all items; only the few items that lists reach are touched."""
        offsets, weights, _ = self._gathered(history, relative)
        np.add.at(scores, self.pairs.items[offsets], self._user_scale(len(history)) * weights)

    def add_to_some(
        self, scores: FloatArray, items: Positions, history: Positions, relative: FloatArray | None = None
    ) -> None:
        """Add the same to `scores` of some items alone, in the same order."""
        offsets, weights, _ = self._gathered(history, relative)
        reached, order = self.pairs.items[offsets], np.argsort(items)
        wanted = np.zeros(self.num_items, dtype=np.bool_)
        wanted[items] = True
        hits = np.flatnonzero(wanted[reached])
        places = order[np.searchsorted(items[order], reached[hits])]
        np.add.at(scores, places, self._user_scale(len(history)) * weights[hits])

    def parts(self, history: Positions, targets: Positions, relative: FloatArray | None = None) -> FloatArray:
        """Return what each item of a history adds to the score of each target (history × targets)."""
        offsets, weights, lengths = self._gathered(history, relative)
        column = np.full(self.num_items, -1, dtype=np.int64)
        column[targets] = np.arange(len(targets))
        hits = np.flatnonzero(column[self.pairs.items[offsets]] >= 0)
        rows, offsets = np.repeat(np.arange(len(history)), lengths)[hits], offsets[hits]
        parts = np.zeros((len(history), len(targets)), dtype=np.float32)
        parts[rows, column[self.pairs.items[offsets]]] = self._user_scale(len(history)) * weights[hits]
        return parts

    def add_for(self, scores: FloatArray, histories: Interactions) -> None:
        """Add what lists say to the rows of `scores`, one for each history. Compiled: needs numba."""
        from legcf.ranking.item_lists.lists_numba import add_lists

        add_lists(scores, self, histories)

    def strongest(self, count: int, among: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Mark the `count` entries of the largest weights, of all or of some that are marked."""
        marked = np.zeros(self.num_entries, dtype=np.bool_)
        sizes = np.abs(self.weights) if among is None else np.where(among, np.abs(self.weights), -np.inf)
        marked[np.argsort(-sizes, kind="stable")[:count]] = True
        return marked if among is None else marked & among

    def rounded(self, bits: int) -> "ItemLists":
        """Round the weights to so many bits, as a file gives them back."""
        codes, levels = quantise_levels(self.weights, bits)
        return replace(self, weights=levels[codes])

    def scaled(self, factor: float) -> "ItemLists":
        """Multiply the weights."""
        return replace(self, weights=self.weights * np.float32(factor), scale=self.scale * factor)

    def with_repeats(self, weight: float) -> "ItemLists":
        """Let every item recommend itself with this weight, instead of any that it had."""
        others, num_items, own = self.without_repeats(), self.num_items, np.arange(self.num_items)
        keys = np.concatenate([others.pairs.keys(), pair_keys(own, own, num_items)])
        weights = np.concatenate([others.weights, np.full(num_items, weight, dtype=np.float32)])
        pairs = Interactions.from_pairs(keys // num_items, keys % num_items, num_items, num_items)
        return replace(self, pairs=pairs, weights=weights[np.argsort(keys)])

    def without_repeats(self) -> "ItemLists":
        """Let no item recommend itself."""
        others = self.pairs.rows() != self.pairs.items
        return self if others.all() else replace(self, pairs=self.pairs.subset(others), weights=self.weights[others])

    @property
    def repeat_weight(self) -> float:
        """Return by how much an item recommends itself; 0 where none does."""
        own = self.weights[self.pairs.rows() == self.pairs.items]
        return float(own[0]) if len(own) else 0.0

    def user_scales(self, histories: Interactions) -> FloatArray:
        """Return n_u^−p of everyone."""
        return self.scales_of(histories.user_degrees)

    def scales_of(self, counts: Positions) -> FloatArray:
        """Return n_u^−p of users who have so many items."""
        return inverse_power(counts, self.user_power).astype(np.float32)

    def storage_bytes(self) -> int:
        """Return the bytes in a model file: sorted keys, and levels of weights in as few bits as they are many."""
        levels = len(np.unique(self.weights))
        bits = bits_for(levels) if levels <= 2**8 else 32
        return packed_bytes(self.num_entries, self.num_items, bits) + 4 * levels

    def _user_scale(self, count: int) -> np.float32:
        return np.float32(float(max(count, 1)) ** -self.user_power)

    def _gathered(self, history: Positions, relative: FloatArray | None) -> tuple[LongArray, FloatArray, LongArray]:
        """Return the offsets of the lists of some items, one after the other, their weights and each list's length."""
        lengths = self.lengths[history]
        ends = np.cumsum(lengths)
        before = np.repeat(self.pairs.indptr[history] - ends + lengths, lengths)
        offsets = before + np.arange(len(before))
        weights = self.weights[offsets]
        return offsets, weights if relative is None else weights * np.repeat(relative, lengths), lengths
