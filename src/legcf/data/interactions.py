# SPDX-License-Identifier: Apache-2.0
"""Hold who interacted with what: immutable CSR parts over contiguous integers, and a dataset of three of them."""

import hashlib
from collections.abc import Mapping, Sequence
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
"""Training pairs that suffice to choose settings, and for an epoch of a small codebook (docs/scale.md)."""
SAMPLE_ITEMS = 2**16
"""Items that suffice to choose settings: every trial costs time for each of them (docs/scale.md)."""


def pair_keys(users: NDArray[np.integer], items: NDArray[np.integer], num_items: int) -> LongArray:
    """Return the key user · num_items + item of every pair: sorted pairs have sorted keys, and no two share one."""
    return users.astype(np.int64) * num_items + items


@dataclass(frozen=True, eq=False)
class Interactions:
    """Hold user → items in CSR form: sorted, unique int32 items in each row; `indptr` is int64.

    Also used for other relations (item → users, item → listed items, item → attribute values): there `num_rows`,
    `row_lengths` and `rows` say what `num_users`, `user_degrees` and `users` say here.
    """

    indptr: NDArray[np.int64]
    items: IntArray
    num_items: int
    weights: FloatArray | None = None
    """How much each pair counts, parallel to `items`; without, all count the same. Only their ratios matter."""

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
            sums = np.add.reduceat(weights[order], starts, dtype=np.float64) if len(keys) else weights[order]
            weights = sums.astype(weights.dtype)
        else:
            keys = sorted_unique(keys)
        indptr = np.zeros(num_users + 1, dtype=np.int64)
        np.cumsum(np.bincount(keys // max(num_items, 1), minlength=num_users), out=indptr[1:])
        return cls(indptr, (keys % max(num_items, 1)).astype(np.int32), num_items, weights)

    @classmethod
    def empty(cls, num_users: int, num_items: int) -> "Interactions":
        return cls(np.zeros(num_users + 1, dtype=np.int64), np.empty(0, dtype=np.int32), num_items)

    def checked(self, kind: str) -> "Interactions":
        """Return these pairs if offsets and items point inside, for compiled loops do not look; else a ValueError."""
        indptr, items = self.indptr, self.items
        if indptr.ndim != 1 or items.ndim != 1 or not len(indptr) or items.dtype != np.int32:
            raise ValueError(f"the {kind} pairs have the wrong form")
        if int(indptr[0]) != 0 or int(indptr[-1]) != len(items) or bool((indptr[1:] < indptr[:-1]).any()):
            raise ValueError(f"the {kind} pairs are out of order")
        if len(items) and not 0 <= int(items.min()) <= int(items.max()) < self.num_items:
            raise ValueError(f"the {kind} pairs have items that are not there")
        return self

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
        """Return the weights in units of their user's mean: how much an item says about a user, beside the others."""
        if self.weights is None:
            return None
        rows = self.users()
        sums = np.bincount(rows, self.weights, minlength=self.num_users)
        means = sums / np.maximum(self.user_degrees, 1)
        return (self.weights / np.where(means > 0, means, 1)[rows]).astype(np.float32)

    def users(self) -> IntArray:
        """Return the user of every pair, parallel to `items`."""
        return np.repeat(np.arange(self.num_users, dtype=np.int32), self.user_degrees)

    num_rows, rows = num_users, users

    @property
    def row_lengths(self) -> NDArray[np.int64]:
        return self.user_degrees

    def keys(self) -> LongArray:
        """Return the `pair_keys` of all pairs, ascending."""
        return pair_keys(self.users(), self.items, self.num_items)

    def subset(self, marked: NDArray[np.bool_]) -> "Interactions":
        """Return the marked pairs, over the same users and items."""
        ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(marked, dtype=np.int64)])
        weights = None if self.weights is None else self.weights[marked]
        return Interactions(ends[self.indptr], self.items[marked], self.num_items, weights)

    def of_users(self, users: NDArray[np.integer]) -> "Interactions":
        """Return the pairs of some users, in this order, over the same items."""
        counts = self.user_degrees[users]
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        offsets = np.repeat(self.indptr[users] - indptr[:-1], counts) + np.arange(indptr[-1])
        weights = None if self.weights is None else self.weights[offsets]
        return Interactions(indptr, self.items[offsets], self.num_items, weights)

    def fold_numbers(self, count: int, rng: np.random.Generator) -> LongArray:
        """Draw a fold for every pair, 0 to count − 1: each fold has about the same share of everyone's pairs."""
        position = np.empty(self.num_pairs, dtype=np.int64)
        position[np.lexsort((rng.random(self.num_pairs), self.users()))] = np.arange(self.num_pairs)
        return position % count  # shuffled within each user: every fifth is a fifth of everyone's pairs

    def of_items(self, items: NDArray[np.integer]) -> "Interactions":
        """Return the pairs with some items, which are renumbered in this order; they must be sorted."""
        new_index = np.full(self.num_items, -1, dtype=np.int32)
        new_index[items] = np.arange(len(items), dtype=np.int32)
        kept = self.subset(new_index[self.items] >= 0)
        return replace(kept, items=new_index[kept.items], num_items=len(items))

    def most_popular(self, count: int) -> NDArray[np.int64]:
        """Return the `count` items with the most pairs, in ascending order of items."""
        return np.sort(np.argsort(-self.item_degrees, kind="stable")[:count])

    def some_users(self, pairs: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw users at random who together have nearly this many pairs, and no more; at least one."""
        drawn = rng.permutation(self.num_users)
        enough = int(np.searchsorted(np.cumsum(self.user_degrees[drawn]), pairs, side="right"))
        return np.sort(drawn[: max(enough, 1)])

    def relative_of(self, user: int) -> FloatArray | None:
        """Return how much each item of a user counts, in units of their mean; None where all pairs count alike."""
        return None if self.weights is None else self.of_users(np.array([user])).relative_weights

    def of(self, user: int) -> IntArray:
        return self.items[self.indptr[user] : self.indptr[user + 1]]

    def joined(self, *others: "Interactions") -> "Interactions":
        """Return these pairs and those of others over the same users and items; see `_weights_of_all`."""
        parts = (self, *(other for other in others if other.num_pairs))
        if len(parts) == 1:
            return self
        users = np.concatenate([part.users() for part in parts])
        items = np.concatenate([part.items for part in parts])
        return Interactions.from_pairs(users, items, self.num_users, self.num_items, _weights_of_all(parts))

    def without(self, others: "Interactions") -> "Interactions":
        """Return the pairs that are not among others over the same users and items."""
        return self.subset(~np.isin(self.keys(), others.keys(), assume_unique=True))

    def widened(self, num_users: int, num_items: int) -> "Interactions":
        """Return the same pairs among more users and items, which follow at the end."""
        indptr = np.append(self.indptr, np.full(num_users - self.num_users, self.num_pairs, dtype=np.int64))
        return Interactions(indptr, self.items, num_items, self.weights)

    def renumbered(
        self, users: NDArray[np.integer], items: NDArray[np.integer], num_users: int, num_items: int
    ) -> "Interactions":
        """Return the pairs by other positions of their users and items; −1 stands for none, and leaves a pair out."""
        of_users, of_items = users[self.users()], items[self.items]
        inside = (of_users >= 0) & (of_items >= 0)
        weights = None if self.weights is None else self.weights[inside]
        return Interactions.from_pairs(of_users[inside], of_items[inside], num_users, num_items, weights)

    def transposed(self) -> "Interactions":
        """Return item → users."""
        order = np.argsort(self.items, kind="stable")  # users of an item stay in their order
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.item_degrees)])
        weights = None if self.weights is None else self.weights[order]
        return Interactions(indptr, self.users()[order], self.num_users, weights)

    def to_scipy(self) -> "sp.csr_matrix":
        import scipy.sparse as sp  # here: serving has no use for it

        values = np.ones(self.num_pairs, dtype=np.float32) if self.weights is None else self.weights
        return sp.csr_matrix((values, self.items, self.indptr), shape=(self.num_users, self.num_items))

    def digest(self) -> str:
        """Hash the pairs alone: the same pairs have the same hash on every machine."""
        hasher = hashlib.sha256(np.array([self.num_users, self.num_items], dtype="<i8").tobytes())
        hasher.update(np.ascontiguousarray(self.indptr, dtype="<i8").data)
        hasher.update(np.ascontiguousarray(self.items, dtype="<i4").data)
        if self.weights is not None:
            hasher.update(np.ascontiguousarray(self.weights, dtype="<f4").data)
        return hasher.hexdigest()


def _weights_of_all(parts: Sequence[Interactions]) -> FloatArray | None:
    """Return the weights of all parts, one after the other; None where no part has weights.

    Pairs without weights get the mean of the others: a part without weights then counts as much per pair as the rest. A
    choice of modelling; others were not measured.
    """
    weighted = [part.weights for part in parts if part.weights is not None]
    if not weighted:
        return None
    stated = np.concatenate(weighted)
    mean = float(stated.mean()) if len(stated) else 1.0
    filled = (np.full(part.num_pairs, mean) if part.weights is None else part.weights for part in parts)
    return np.concatenate(list(filled)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Hold three disjoint parts over the same users and items, and where they came from.

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
        dislikes: Items that users do not want; none of them is in a part as well.
        repeats: Whether users take items again, so that a pair may be in several parts.
        order: Every pair, weighed by its position in the user's history, oldest first; None where no times were read.

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
    dislikes: Interactions | None = None
    repeats: bool = False
    order: Interactions | None = None

    def __post_init__(self) -> None:
        if self.dislikes is not None:
            for part in ("train", "validation", "test"):
                object.__setattr__(self, part, getattr(self, part).without(self.dislikes))

    @cached_property
    def known(self) -> Interactions:
        """Return every pair of the data, whichever part it is in."""
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
        """Return the pairs of some users, over the same items."""
        parts = {name: getattr(self, name).of_users(users) for name in self._parts}
        return replace(self, users=IdMap(self.users.values[users], self.users.kind), **parts)

    def sample(self, pairs: int, items: int, rng: np.random.Generator) -> "Dataset":
        """Draw users at random who together have so many training pairs with the most popular items.

        Popular items, because of a few users' pairs most items would have next to none.

        Args:
            pairs: How many pairs there are to be, nearly.
            items: How many items, at most.
            rng: Draws the users.

        Returns:
            Another dataset of fewer users and items.
        """
        popular = self if self.num_items <= items else self._of_items(self.train.most_popular(items))
        return popular.of_users(popular.train.some_users(pairs, rng))

    def _of_items(self, items: NDArray[np.int64]) -> "Dataset":
        parts = {name: getattr(self, name).of_items(items) for name in self._parts}
        titles = None if self.titles is None else [self.titles[item] for item in items]
        return replace(self, items=IdMap(self.items.values[items], self.items.kind), titles=titles, **parts)

    @property
    def _parts(self) -> tuple[str, ...]:
        optional = (name for name in ("dislikes", "order") if getattr(self, name) is not None)
        return ("train", "validation", "test", *optional)

    def whole(self) -> "Dataset":
        """Return the data with every pair as training, none to choose or test by."""
        nothing = Interactions.empty(self.num_users, self.num_items)
        return replace(self, train=self.known, validation=nothing, test=nothing)

    @property
    def num_users(self) -> int:
        """Return how many users there are, with pairs or without."""
        return len(self.users)

    @property
    def num_items(self) -> int:
        """Return how many items there are, with pairs or without."""
        return len(self.items)

    @cached_property
    def content_hash(self) -> str:
        """Hash ids and parts: two datasets with the same hash give the same run."""
        hasher = hashlib.sha256()
        for ids in (self.users, self.items):
            for name, array in sorted(ids.to_arrays().items()):
                hasher.update(f"{name}:{len(array)}:".encode())
                hasher.update(np.ascontiguousarray(array).data)
        for part in (getattr(self, name) for name in self._parts if name != "order"):  # as a prepared folder has none
            hasher.update(part.digest().encode())
        return hasher.hexdigest()
