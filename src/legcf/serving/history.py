"""What users have, kept in memory as the file holds it and decoded for those who are asked for. Numpy only."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legcf.arrays import IntArray
from legcf.data.interactions import Interactions
from legcf.ranking.packing import Bytes, SortedKeys, encode_sorted


@dataclass(frozen=True, eq=False)
class PackedHistories:
    """The items of every user, sorted: what to leave out, and what a user is solved from.

    A pair is the key user · items + item, so the keys of neighbouring users are neighbours.
    """

    indptr: NDArray[np.integer]
    keys: SortedKeys
    num_items: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_pairs(self) -> int:
        return int(self.indptr[-1])

    @classmethod
    def of(cls, pairs: Interactions) -> "PackedHistories":
        num_users, num_items = pairs.num_users, pairs.num_items
        packed = encode_sorted(pairs.users().astype(np.int64) * num_items + pairs.items, num_users * num_items)
        keys = SortedKeys(*packed, pairs.num_pairs, num_users * num_items)
        return cls(_narrow(pairs.indptr), keys, num_items)

    @classmethod
    def unpack(cls, low: Bytes, high: Bytes, num_pairs: int, num_users: int, num_items: int) -> "PackedHistories":
        """From the bytes of a file, every key checked on the way."""
        keys = SortedKeys(low, high, num_pairs, num_users * num_items)
        indptr = np.zeros(num_users + 1, dtype=np.int64)
        for chunk in keys.chunks():
            users = chunk // num_items
            first, last = int(users[0]), int(users[-1])
            indptr[first + 1 : last + 2] += np.bincount(users - first)
        return cls(_narrow(np.cumsum(indptr, out=indptr)), keys, num_items)

    def of_user(self, user: int) -> IntArray:
        return self.some(user, user + 1).items

    def some(self, start: int, stop: int) -> Interactions:
        """The histories of the users from `start` on, before `stop`."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        keys = self.keys.between(first, last, start * self.num_items, stop * self.num_items)
        indptr = self.indptr[start : stop + 1].astype(np.int64) - first
        return Interactions(indptr, (keys % self.num_items).astype(np.int32), self.num_items)

    def all(self) -> Interactions:
        """A chunk after the other: the keys of all pairs at once take many times the memory of their items."""
        items = np.empty(self.num_pairs, dtype=np.int32)
        done = 0
        for chunk in self.keys.chunks():
            items[done : done + len(chunk)] = chunk % self.num_items
            done += len(chunk)
        return Interactions(self.indptr.astype(np.int64), items, self.num_items)


def _narrow(indptr: NDArray[np.integer]) -> NDArray[np.integer]:
    return indptr.astype(np.uint32 if int(indptr[-1]) < 2**32 else np.int64)
