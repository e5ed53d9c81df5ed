# SPDX-License-Identifier: Apache-2.0
"""Keep the items of users in memory as the file holds them, and decode those that are asked for. Numpy only."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, IntArray, Positions
from legcf.data.interactions import Interactions
from legcf.ranking.tables import packing

WEIGHT_BITS, MOST_WEIGHT_BITS = 8, 16  # usual and at most; weights of few values take fewer
_SMALLEST, _LARGEST = 1e-6, 1e6  # weights of pairs in a file


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """Hold the weights of pairs: each is one of a few levels, even steps of the logarithm where values are many."""

    codes: packing.BitReader
    levels: FloatArray

    @classmethod
    def of(cls, weights: FloatArray, bits: int = WEIGHT_BITS) -> "PackedWeights":
        codes, logarithms = packing.quantise_levels(np.log(np.clip(weights, _SMALLEST, _LARGEST)), bits)
        return cls.unpack(packing.pack_bits(codes, packing.bits_for(len(logarithms))), np.exp(logarithms), len(weights))

    @classmethod
    def unpack(cls, codes: packing.Bytes, levels: FloatArray, count: int) -> "PackedWeights":
        if len(levels) > 2**MOST_WEIGHT_BITS or not bool(np.all((levels > 0) & np.isfinite(levels))):
            raise ValueError("weights of pairs are wrong")
        reader = packing.BitReader(codes, packing.bits_for(len(levels)), count)
        if count and int(reader.read(0, count).max()) >= len(levels):
            raise ValueError("a weight of a pair is out of range")
        return cls(reader, levels)

    def some(self, first: int, last: int) -> FloatArray:
        return self.levels[self.codes.read(first, last)]


@dataclass(frozen=True, eq=False)
class PackedHistories:
    """Hold the items of every user, sorted: what to leave out, and what a user is solved from.

    A pair is the key user · items + item, so the keys of neighbouring users are neighbours.
    """

    indptr: NDArray[np.integer]
    keys: packing.SortedKeys
    num_items: int
    weights: PackedWeights | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_pairs(self) -> int:
        return int(self.indptr[-1])

    @classmethod
    def of(cls, pairs: Interactions, weight_bits: int = WEIGHT_BITS) -> "PackedHistories":
        num_users, num_items = pairs.num_users, pairs.num_items
        packed = packing.encode_sorted(pairs.keys(), num_users * num_items)
        keys = packing.SortedKeys(*packed, pairs.num_pairs, num_users * num_items)
        weights = None if pairs.weights is None else PackedWeights.of(pairs.weights, weight_bits)
        return cls(_narrow(pairs.indptr), keys, num_items, weights)

    @classmethod
    def unpack(
        cls, low: packing.Bytes, high: packing.Bytes, num_pairs: int, num_users: int, num_items: int
    ) -> "PackedHistories":
        """Read the bytes of a file, and check every key on the way."""
        keys = packing.SortedKeys(low, high, num_pairs, num_users * num_items)
        indptr = np.zeros(num_users + 1, dtype=np.int64)
        for chunk in keys.chunks():
            users = chunk // num_items
            first, last = int(users[0]), int(users[-1])
            indptr[first + 1 : last + 2] += np.bincount(users - first)
        return cls(_narrow(np.cumsum(indptr, out=indptr)), keys, num_items)

    def of_user(self, user: int) -> IntArray:
        return self.some(user, user + 1).items

    def relative(self, user: int, history: Positions) -> FloatArray | None:
        """Return the weight of each item of a history, in units of the user's mean; None where all pairs weigh alike.

        Items that the file does not have for the user weigh as the others do on average.
        """
        stored = self.some(user, user + 1)
        weights = stored.relative_of(0)
        if weights is None:
            return None
        relative = np.ones(len(history), dtype=np.float32)
        kept = np.isin(stored.items, history)  # an item may have been taken back since
        relative[np.searchsorted(history, stored.items[kept])] = weights[kept]
        return relative

    def some(self, start: int, stop: int) -> Interactions:
        """Return the histories of the users from `start` on, before `stop`."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        keys = self.keys.between(first, last, start * self.num_items, stop * self.num_items)
        indptr = self.indptr[start : stop + 1].astype(np.int64) - first
        weights = None if self.weights is None else self.weights.some(first, last)
        return Interactions(indptr, (keys % self.num_items).astype(np.int32), self.num_items, weights)

    def all(self) -> Interactions:
        """Return all histories, decoded in chunks: all keys at once take many times the memory of their items."""
        items = np.empty(self.num_pairs, dtype=np.int32)
        done = 0
        for chunk in self.keys.chunks():
            items[done : done + len(chunk)] = chunk % self.num_items
            done += len(chunk)
        weights = None if self.weights is None else self.weights.some(0, self.num_pairs)
        return Interactions(self.indptr.astype(np.int64), items, self.num_items, weights)


def _narrow(indptr: NDArray[np.integer]) -> NDArray[np.integer]:
    return indptr.astype(np.uint32 if int(indptr[-1]) < 2**32 else np.int64)
