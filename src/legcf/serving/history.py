"""What users have, kept in memory as the file holds it and decoded for those who are asked for. Numpy only."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legcf.serving.packing import Bytes, SortedKeys, encode_sorted
from legcf.serving.rows import Positions


@dataclass(frozen=True, eq=False)
class Lists:
    """The items of some users, one list after the other: those of row r are `items[indptr[r] : indptr[r + 1]]`."""

    indptr: NDArray[np.integer]
    items: Positions

    @classmethod
    def empty(cls, rows: int) -> "Lists":
        return cls(np.zeros(rows + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def lengths(self) -> NDArray[np.integer]:
        return np.diff(self.indptr)

    def of(self, row: int) -> Positions:
        return self.items[self.indptr[row] : self.indptr[row + 1]]

    def several(self, rows: Positions) -> "Lists":
        """The lists of some rows, in their order."""
        starts = self.indptr[rows]
        lengths = self.indptr[rows + 1] - starts
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        return Lists(indptr, self.items[np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])])


@dataclass(frozen=True, eq=False)
class History:
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
    def of_lists(cls, indptr: NDArray[np.integer], items: Positions, num_items: int) -> "History":
        num_users = len(indptr) - 1
        users = np.repeat(np.arange(num_users, dtype=np.int64), np.diff(indptr))
        packed = encode_sorted(users * num_items + items, num_users * num_items)
        return cls(_narrow(indptr), SortedKeys(*packed, len(items), num_users * num_items), num_items)

    @classmethod
    def unpack(cls, low: Bytes, high: Bytes, num_pairs: int, num_users: int, num_items: int) -> "History":
        """From the bytes of a file, every key checked on the way."""
        keys = SortedKeys(low, high, num_pairs, num_users * num_items)
        indptr = np.zeros(num_users + 1, dtype=np.int64)
        for chunk in keys.chunks():
            users = chunk // num_items
            first, last = int(users[0]), int(users[-1])
            indptr[first + 1 : last + 2] += np.bincount(users - first)
        return cls(_narrow(np.cumsum(indptr, out=indptr)), keys, num_items)

    def of(self, user: int) -> NDArray[np.int32]:
        return self.some(user, user + 1).items.astype(np.int32)

    def some(self, start: int, stop: int) -> Lists:
        """The lists of the users from `start` on, before `stop`."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        keys = self.keys.between(first, last, start * self.num_items, stop * self.num_items)
        return Lists(self.indptr[start : stop + 1].astype(np.int64) - first, (keys % self.num_items).astype(np.int32))

    def all(self) -> Lists:
        return self.some(0, len(self))


def _narrow(indptr: NDArray[np.integer]) -> NDArray[np.integer]:
    return indptr.astype(np.uint32 if int(indptr[-1]) < 2**32 else np.int64)
