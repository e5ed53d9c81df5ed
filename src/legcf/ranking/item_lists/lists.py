# SPDX-License-Identifier: Apache-2.0
"""Item lists: for every item that a user may have, the few items it speaks for and how strongly. Numpy only.

    term(u, i) = n_u^−p · Σ_{j ∈ N(u)} S_ji

A codebook makes items alike that are not; what it loses is particular to few items, so it is sparse. Nothing but S is
needed to rank: no other user's history, and a request costs the lengths of the lists of its items.
"""

from dataclasses import dataclass, replace

import numpy as np

from legcf.core.arrays import FloatArray, LongArray, Positions, inverse_power
from legcf.data.interactions import Interactions
from legcf.ranking.tables.packing import bits_for, quantise_levels


def packed_bytes(entries: int, num_items: int, bits: int) -> int:
    """What so many entries take: sorted keys 2 + log2(keys / entries) bits each, weights `bits`."""
    if not entries:
        return 0
    return int(np.ceil(entries * (2 + np.log2(max(num_items**2 / entries, 1)) + bits) / 8))


def entries_within(room: float, num_items: int, bits: int) -> int:
    """How many entries of lists a file of this much room holds."""
    low, high = 0, num_items * max(num_items - 1, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if packed_bytes(middle, num_items, bits) <= room:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True, eq=False)
class ItemLists:
    """S by the item of a history: row j holds the items that j speaks for, in ascending order, and the weights."""

    pairs: Interactions
    """Row j, column i."""
    weights: FloatArray
    user_power: float = 0.5
    """p, how far long histories are shortened."""
    scale: float = 1.0
    """What solved weights were multiplied by, to stand beside the products of vectors; 0 where it is not known."""

    @property
    def num_entries(self) -> int:
        return self.pairs.num_pairs

    def term(self, items: Positions, relative: FloatArray | None = None) -> FloatArray:
        """What is added to the score of every item, for someone with these items, which count alike or so much each."""
        places, weights, _ = self._gathered(items, relative)
        sums = np.bincount(self.pairs.items[places], weights, self.pairs.num_items)
        added: FloatArray = (self._own(len(items)) * sums).astype(np.float32)
        return added

    def add_to(self, scores: FloatArray, items: Positions, relative: FloatArray | None = None) -> None:
        """Add the term to scores of all items: the few that are reached are looked at, no others."""
        places, weights, _ = self._gathered(items, relative)
        np.add.at(scores, self.pairs.items[places], self._own(len(items)) * weights)

    def parts(self, items: Positions, targets: Positions, relative: FloatArray | None = None) -> FloatArray:
        """What each of someone's items adds to the score of each target (items × targets); columns sum up to `term`."""
        places, weights, lengths = self._gathered(items, relative)
        column = np.full(self.pairs.num_items, -1, dtype=np.int64)
        column[targets] = np.arange(len(targets))
        wanted = np.flatnonzero(column[self.pairs.items[places]] >= 0)
        rows, places = np.repeat(np.arange(len(items)), lengths)[wanted], places[wanted]
        parts = np.zeros((len(items), len(targets)), dtype=np.float32)
        parts[rows, column[self.pairs.items[places]]] = self._own(len(items)) * weights[wanted]
        return parts

    def add_for(self, scores: FloatArray, histories: Interactions) -> None:
        """Add the term to the rows of `scores`, one for each history. Compiled: needs numba."""
        from legcf.ranking.item_lists.lists_numba import add_lists

        add_lists(scores, self, histories)

    def rounded(self, bits: int) -> "ItemLists":
        """With weights of only so many bits, as a file gives them back."""
        codes, levels = quantise_levels(self.weights, bits)
        return replace(self, weights=levels[codes])

    def scaled(self, factor: float) -> "ItemLists":
        return replace(self, weights=self.weights * np.float32(factor), scale=self.scale * factor)

    def with_histories(self, histories: Interactions) -> "ItemLists":
        """What is stored is all that is needed."""
        return self

    def own_scales(self, histories: Interactions) -> FloatArray:
        """n_u^−p of everyone."""
        scales: FloatArray = inverse_power(histories.user_degrees, self.user_power).astype(np.float32)
        return scales

    def num_params(self) -> int:
        return self.num_entries

    def storage_bytes(self) -> int:
        """As a model file packs them: sorted keys, and levels of weights in as few bits as they are many."""
        levels = len(np.unique(self.weights))
        bits = bits_for(levels) if levels <= 2**8 else 32
        return packed_bytes(self.num_entries, self.pairs.num_items, bits) + 4 * levels

    def _own(self, count: int) -> np.float32:
        return np.float32(float(max(count, 1)) ** -self.user_power)

    def _gathered(self, items: Positions, relative: FloatArray | None) -> tuple[LongArray, FloatArray, LongArray]:
        """Where the lists of some items stand, one after the other, their weights, and how long each is."""
        lengths = self.pairs.row_lengths[items]
        ends = np.cumsum(lengths)
        before = np.repeat(self.pairs.indptr[items] - ends + lengths, lengths)
        places = before + np.arange(len(before))
        weights = self.weights[places]
        return places, weights if relative is None else weights * np.repeat(relative, lengths), lengths
