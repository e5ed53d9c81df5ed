# SPDX-License-Identifier: Apache-2.0
"""Who interacted with what: immutable CSR parts over contiguous integers, and a dataset made of three of them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, IntArray, LongArray, sorted_unique
from legcf.data.ids import IdMap

if TYPE_CHECKING:
    import scipy.sparse as sp

MANY_PAIRS = 3_000_000
"""More training pairs than this are not needed to choose settings, nor for an epoch of a small codebook."""
SAMPLE_ITEMS = 2**16
"""More items than this are not needed to choose settings either: what is tried costs time for each of them."""


def pair_keys(users: NDArray[np.integer], items: NDArray[np.integer], num_items: int) -> LongArray:
    """Return the key user · num_items + item of every pair: sorted pairs have sorted keys, and no two share one."""
    keys: LongArray = users.astype(np.int64) * num_items + items
    return keys


@dataclass(frozen=True, eq=False)
class Interactions:
    """User → items in CSR form: sorted, unique int32 items in each row; `indptr` is int64."""

    indptr: NDArray[np.int64]
    items: IntArray
    num_items: int
    weights: FloatArray | None = None
    """How much each pair counts, beside `items`; without, all count the same. Only their ratios matter."""

    @classmethod
    def from_pairs(
        cls,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        num_users: int,
        num_items: int,
        weights: FloatArray | None = None,
    ) -> "Interactions":
        """Build from pairs in any order; repeated pairs are merged, and their weights added up."""
        keys = pair_keys(users, items, num_items)
        if weights is not None:
            order = np.argsort(keys, kind="stable")
            keys, starts = np.unique(keys[order], return_index=True)
            weights = np.add.reduceat(weights[order], starts) if len(keys) else weights[order]
        else:
            keys = sorted_unique(keys)
        indptr = np.zeros(num_users + 1, dtype=np.int64)
        np.cumsum(np.bincount(keys // max(num_items, 1), minlength=num_users), out=indptr[1:])
        return cls(indptr, (keys % max(num_items, 1)).astype(np.int32), num_items, weights)

    @classmethod
    def empty(cls, num_users: int, num_items: int) -> "Interactions":
        return cls(np.zeros(num_users + 1, dtype=np.int64), np.empty(0, dtype=np.int32), num_items)

    @property
    def num_users(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_pairs(self) -> int:
        return len(self.items)

    @cached_property
    def user_degrees(self) -> NDArray[np.int64]:
        return np.diff(self.indptr)

    @cached_property
    def item_degrees(self) -> NDArray[np.int64]:
        return np.bincount(self.items, minlength=self.num_items)

    @cached_property
    def relative_weights(self) -> FloatArray | None:
        """The weights in units of their user's mean: what an item says about someone, beside the others."""
        if self.weights is None:
            return None
        rows = self.users()
        sums = np.bincount(rows, self.weights, minlength=self.num_users)
        means = sums / np.maximum(self.user_degrees, 1)
        relative: FloatArray = (self.weights / np.where(means > 0, means, 1)[rows]).astype(np.float32)
        return relative

    def users(self) -> IntArray:
        """The user of every pair, beside `items`."""
        return np.repeat(np.arange(self.num_users, dtype=np.int32), self.user_degrees)

    def keys(self) -> LongArray:
        """Return the `pair_keys` of all pairs, ascending."""
        return pair_keys(self.users(), self.items, self.num_items)

    def subset(self, kept: NDArray[np.bool_]) -> "Interactions":
        """The pairs that are marked, over the same users and items."""
        weights = None if self.weights is None else self.weights[kept]
        return Interactions.from_pairs(self.users()[kept], self.items[kept], self.num_users, self.num_items, weights)

    def of_users(self, users: NDArray[np.integer]) -> "Interactions":
        """The pairs of some users, in this order, over the same items."""
        counts = self.user_degrees[users]
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        places = np.repeat(self.indptr[users] - indptr[:-1], counts) + np.arange(indptr[-1])
        weights = None if self.weights is None else self.weights[places]
        return Interactions(indptr, self.items[places], self.num_items, weights)

    def of_items(self, items: NDArray[np.integer]) -> "Interactions":
        """The pairs with some items, which are numbered in this order; they must be sorted."""
        places = np.full(self.num_items, -1, dtype=np.int32)
        places[items] = np.arange(len(items), dtype=np.int32)
        renumbered = places[self.items]
        kept = renumbered >= 0
        ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(kept, dtype=np.int64)])
        weights = None if self.weights is None else self.weights[kept]
        return Interactions(ends[self.indptr], renumbered[kept], len(items), weights)

    def most_popular(self, count: int) -> NDArray[np.int64]:
        """The items with the most pairs, in their order."""
        return np.sort(np.argsort(-self.item_degrees, kind="stable")[:count])

    def some_users(self, pairs: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Users drawn at random who together have nearly this many pairs, and no more; at least one."""
        drawn = rng.permutation(self.num_users)
        enough = int(np.searchsorted(np.cumsum(self.user_degrees[drawn]), pairs, side="right"))
        return np.sort(drawn[: max(enough, 1)])

    def of_range(self, users: slice) -> "Interactions":
        """Only the pairs of a range of users, over the same users and items; nothing is copied but the bounds."""
        first, last = self.indptr[users.start], self.indptr[users.stop]
        weights = None if self.weights is None else self.weights[first:last]
        return Interactions(np.clip(self.indptr, first, last) - first, self.items[first:last], self.num_items, weights)

    def relative_of(self, user: int) -> FloatArray | None:
        """How much each item of a user counts, in units of their mean; None where all pairs count alike."""
        if self.weights is None:
            return None
        return self.of_users(np.array([user])).relative_weights

    def of(self, user: int) -> IntArray:
        return self.items[self.indptr[user] : self.indptr[user + 1]]

    def joined(self, *others: "Interactions") -> "Interactions":
        """These pairs and those of others over the same users and items; pairs without weights count as the others do
        on average."""
        parts = (self, *(other for other in others if other.num_pairs))
        if len(parts) == 1:
            return self
        users = np.concatenate([part.users() for part in parts])
        items = np.concatenate([part.items for part in parts])
        weights = None
        if any(part.weights is not None for part in parts):
            given = np.concatenate([part.weights for part in parts if part.weights is not None])
            usual = float(given.mean()) if len(given) else 1.0
            filled = (np.full(part.num_pairs, usual) if part.weights is None else part.weights for part in parts)
            weights = np.concatenate(list(filled)).astype(np.float32)
        return Interactions.from_pairs(users, items, self.num_users, self.num_items, weights)

    def widened(self, num_users: int, num_items: int) -> "Interactions":
        """The same pairs among more users and items, which follow at the end."""
        indptr = np.append(self.indptr, np.full(num_users - self.num_users, self.num_pairs, dtype=np.int64))
        return Interactions(indptr, self.items, num_items, self.weights)

    def transposed(self) -> "Interactions":
        """Item → users."""
        return Interactions.from_pairs(self.items, self.users(), self.num_items, self.num_users, self.weights)

    def to_scipy(self) -> "sp.csr_matrix":
        import scipy.sparse as sp  # here: serving has no use for it

        values = np.ones(self.num_pairs, dtype=np.float32) if self.weights is None else self.weights
        return sp.csr_matrix((values, self.items, self.indptr), shape=(self.num_users, self.num_items))

    def digest(self) -> str:
        """Hash of the pairs alone, the same for the same pairs on every machine."""
        hasher = hashlib.sha256(np.array([self.num_users, self.num_items], dtype="<i8").tobytes())
        hasher.update(np.ascontiguousarray(self.indptr, dtype="<i8").data)
        hasher.update(np.ascontiguousarray(self.items, dtype="<i4").data)
        if self.weights is not None:
            hasher.update(np.ascontiguousarray(self.weights, dtype="<f4").data)
        return hasher.hexdigest()


@dataclass(frozen=True, eq=False)
class Dataset:
    """Three disjoint parts over the same users and items, and where they came from.

    Args:
        name: What the data is called.
        protocol: How pairs became train, validation and test.
        users: The ids of users, in their order.
        items: The ids of items, in their order.
        train: The pairs to learn from.
        validation: The pairs to choose by.
        test: The pairs to report on.
        titles: Names of items, in item order, if there are any.
        provenance: How the parts were made (source, protocol, split seed, options); recorded with every run.
        weighed_at: The time, in seconds since 1970, that the ages of pairs were counted back from, with a half-life.

    Example:
        ```python
        data = legcf.load_data("interactions.csv")
        data.num_users, data.num_items, data.train.num_pairs
        ```
    """

    name: str
    protocol: str
    users: IdMap
    items: IdMap
    train: Interactions
    validation: Interactions
    test: Interactions
    titles: list[str] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    weighed_at: float | None = None
    """Where older pairs weigh less: the time they are older than, in seconds since 1970."""

    @cached_property
    def known(self) -> Interactions:
        """Every pair of the data, whichever part it is in: what users are known to have."""
        return self.train.joined(self.validation, self.test)

    def holding_out(self, share: float, rng: np.random.Generator) -> "Dataset":
        """Take a share of each user's training pairs as validation, for choices where a protocol has none.

        Args:
            share: How many, from 0 to 1; at least one pair of a user stays.
            rng: Draws them.

        Returns:
            Another dataset over the same users and items.
        """
        users, degrees = self.train.users(), self.train.user_degrees
        counts = np.clip(np.floor(degrees * share + 0.5), 0, np.maximum(degrees - 1, 0))
        order = np.lexsort((rng.random(self.train.num_pairs), users))
        hidden = np.empty(self.train.num_pairs, dtype=np.bool_)
        hidden[order] = np.arange(self.train.num_pairs) - self.train.indptr[users] < counts[users]
        return replace(self, train=self.train.subset(~hidden), validation=self.train.subset(hidden))

    def of_users(self, users: NDArray[np.int64]) -> "Dataset":
        """The pairs of some users, over the same items."""
        parts = {name: getattr(self, name).of_users(users) for name in ("train", "validation", "test")}
        return replace(self, users=IdMap(self.users.values[users], self.users.kind), **parts)

    def sample(self, pairs: int, items: int, rng: np.random.Generator) -> "Dataset":
        """Users drawn at random who together have so many training pairs with the most popular items.

        Popular items, because of a few users' pairs most items would have next to none.

        Args:
            pairs: How many pairs there are to be, nearly.
            items: How many items, at most.
            rng: Draws the users.

        Returns:
            Another dataset of fewer users and items.
        """
        some = self if self.num_items <= items else self._of_items(self.train.most_popular(items))
        return some.of_users(some.train.some_users(pairs, rng))

    def _of_items(self, items: NDArray[np.int64]) -> "Dataset":
        parts = {name: getattr(self, name).of_items(items) for name in ("train", "validation", "test")}
        titles = None if self.titles is None else [self.titles[item] for item in items]
        return replace(self, items=IdMap(self.items.values[items], self.items.kind), titles=titles, **parts)

    def whole(self) -> "Dataset":
        """Take every pair as training, none to choose or test by.

        Returns:
            Another dataset over the same users and items.
        """
        nothing = Interactions.empty(self.num_users, self.num_items)
        return replace(self, train=self.known, validation=nothing, test=nothing)

    @property
    def num_users(self) -> int:
        """How many users there are, with pairs or without."""
        return len(self.users)

    @property
    def num_items(self) -> int:
        """How many items there are, with pairs or without."""
        return len(self.items)

    @cached_property
    def content_hash(self) -> str:
        """Hash of ids and parts: two datasets with the same hash give the same run."""
        hasher = hashlib.sha256()
        for ids in (self.users, self.items):
            for name, array in sorted(ids.to_arrays().items()):
                hasher.update(f"{name}:{len(array)}:".encode())
                hasher.update(np.ascontiguousarray(array).data)
        for part in (self.train, self.validation, self.test):
            hasher.update(part.digest().encode())
        return hasher.hexdigest()
