# SPDX-License-Identifier: Apache-2.0
"""Training pairs and negatives, drawn compiled from one seeded generator that is passed in."""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from legcf.core import distributed
from legcf.core.arrays import LongArray
from legcf.core.errors import UserError
from legcf.core.jit import njit
from legcf.data.interactions import MANY_PAIRS, Interactions
from legcf.training.model import WHOLE

_TRIES = 100  # for a user who has nearly everything, the search goes on item by item after this many draws
Order = Literal["interaction", "user"]
Negatives = Literal["each", "shared", "none"]
"""Distinct unseen items for every pair, items that a batch shares, or none because a batch is the whole data."""


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """Distinct entities of a batch, and its pairs as places among them.

    `entities` are global: user u is u, item i is U + i. `negatives` is pairs × k ("each") or a list for all ("shared").
    `weights` of the pairs have mean 1 over the data. `num_users` is U.
    All pairs are of one fold, or `fold` is WHOLE.
    """

    entities: LongArray
    users: LongArray
    positives: LongArray
    negatives: LongArray
    weights: NDArray[np.float32]
    num_users: int
    fold: int

    @property
    def num_pairs(self) -> int:
        return len(self.users)


class Sampler:
    """Batches of an epoch: as many pairs as there are interactions.

    order "interaction": every pair once, shuffled. order "user": a uniform user, then one of its items, so active users
    weigh less. `negatives_kind` "each" draws `negatives` distinct unseen items for every pair, "shared" draws that
    many uniform items for the whole batch, "none" gives all pairs at once and draws nothing. With a `pool`, those of
    "each" come from so many items that the batch draws first: every item is as likely as before, but a batch has far
    fewer distinct entities, which is what a step costs. A pair weighs
    user degree^−user_power · item degree^−item_power. With `folds` (a number for every pair), a batch holds pairs of
    one fold, so that its vectors can come from the graph without them. `seen` says what is no negative; the pairs
    themselves by default. `steps` makes an epoch so many batches, of a part of a pass or of several;
    of a small part of very many pairs, they are drawn with repetition.
    """

    def __init__(
        self,
        train: Interactions,
        batch_size: int,
        negatives: int,
        order: Order,
        negatives_kind: Negatives,
        user_power: float = 0.0,
        item_power: float = 0.0,
        folds: NDArray[np.integer] | None = None,
        seen: Interactions | None = None,
        steps: int | None = None,
        pool: int | None = None,
    ) -> None:
        self._train = train
        self._seen = train if seen is None else seen
        self._batch_size = batch_size if negatives_kind != "none" else max(train.num_pairs, 1)
        self._negatives = negatives
        self._order = order
        self._kind = negatives_kind
        self._folds = folds
        self._steps = steps
        self._pool = None if pool is None or pool >= train.num_items else max(pool, negatives)
        self._own = slice(0, train.num_pairs)  # the pairs of which users, items and weights are at hand
        self._users, self._items = train.users(), train.items
        self._weights = pair_weights(train, user_power, item_power)
        self._active = np.flatnonzero(train.user_degrees > 0)
        self._all_items = np.arange(train.num_items, dtype=np.int64)
        self._place = np.full(train.num_users + train.num_items, -1, dtype=np.int64)

    @property
    def num_pairs(self) -> int:
        return self._train.num_pairs

    @property
    def steps_per_epoch(self) -> int:
        if self._steps is not None:
            return self._steps if self.num_pairs else 0
        sizes = [self._train.num_pairs] if self._folds is None else np.bincount(self._folds)
        return int(sum(-(-size // self._batch_size) for size in sizes))

    def of_rank(self) -> "Sampler":
        """The batches of this rank: of every batch that all ranks draw alike, the pairs of its own users.

        So several ranks see the pairs and shared negatives that one would see, and differ from it by rounding alone.
        """
        if distributed.world_size() == 1:
            return self
        train = self._train
        shares = train.indptr[distributed.row_partition(train.indptr)]
        if not np.diff(shares).all():
            raise UserError(
                f"{train.num_pairs:,} pairs are too few for {distributed.world_size()} workers: take fewer."
            )
        part = copy.copy(self)
        part._own = own = distributed.local_rows(shares)
        part._users, part._items = self._users[own].copy(), self._items[own].copy()
        part._weights = self._weights[own].copy()
        return part

    def epoch(self, rng: np.random.Generator) -> Iterator[TrainingBatch]:
        if self._steps is None:
            return self._pass(rng)
        passes = (self._pass(rng) for _ in itertools.count()) if self.num_pairs else ()
        return itertools.islice(itertools.chain.from_iterable(passes), self._steps)

    def _pass(self, rng: np.random.Generator) -> Iterator[TrainingBatch]:
        if self._kind == "none":
            yield self._whole()
            return
        own = distributed.local_generator(rng)
        for fold, chosen in self._chosen_pairs(rng):
            yield self._batch(self._at_hand(chosen), fold, rng, own)

    def _at_hand(self, chosen: LongArray) -> LongArray:
        """Places of those pairs of a batch that this rank has."""
        if distributed.world_size() == 1:
            return chosen
        return chosen[(chosen >= self._own.start) & (chosen < self._own.stop)] - self._own.start

    def _chosen_pairs(self, rng: np.random.Generator) -> Iterator[tuple[int, LongArray]]:
        train, size = self._train, self._batch_size
        if self._order == "user":
            for start in range(0, train.num_pairs, size):
                users = self._active[rng.integers(0, len(self._active), min(size, train.num_pairs - start))]
                places = (rng.random(len(users)) * train.user_degrees[users]).astype(np.int64)
                yield WHOLE, train.indptr[users] + places
            return
        if self._steps is not None and self._folds is None and self._steps * size < train.num_pairs > MANY_PAIRS:
            yield from ((WHOLE, rng.integers(0, train.num_pairs, size)) for _ in range(self._steps))
            return
        order = rng.permutation(train.num_pairs)
        if self._folds is None:
            yield from ((WHOLE, order[start : start + size]) for start in range(0, len(order), size))
            return
        batches = []
        for fold in range(int(self._folds.max()) + 1):
            members = order[self._folds[order] == fold]
            batches += [(fold, members[start : start + size]) for start in range(0, len(members), size)]
        yield from (batches[number] for number in rng.permutation(len(batches)))

    def _candidates(self, rng: np.random.Generator) -> LongArray:
        if self._pool is None:
            return self._all_items
        return rng.choice(self._train.num_items, self._pool, replace=False).astype(np.int64)

    def _whole(self) -> TrainingBatch:
        train = self._train
        entities = np.arange(train.num_users + train.num_items)
        users, positives = self._users.astype(np.int64), train.items + np.int64(train.num_users)
        return TrainingBatch(
            entities, users, positives, np.empty(0, dtype=np.int64), self._weights, train.num_users, WHOLE
        )

    def _batch(self, chosen: LongArray, fold: int, rng: np.random.Generator, own: np.random.Generator) -> TrainingBatch:
        """`rng` draws what ranks have in common, `own` what each draws for its own pairs."""
        train = self._train
        weights = self._weights[chosen]
        if not len(chosen):  # a last batch may be so small that a rank has nothing of it: a pair of no weight stands in
            chosen, weights = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.float32)
        users, positives = self._users[chosen], self._items[chosen]
        if self._kind == "each":
            negatives = np.empty((len(users), self._negatives), dtype=np.int64)
            _draw_unseen(own, users, self._seen.indptr, self._seen.items, self._candidates(rng), negatives)
        else:
            count = min(self._negatives, train.num_items)
            negatives = rng.choice(train.num_items, count, replace=False).astype(np.int64)
        entities = np.empty(2 * len(users) + negatives.size, dtype=np.int64)
        local = np.empty(len(entities), dtype=np.int64)
        found = _compact(users, positives, negatives.ravel(), train.num_users, self._place, entities, local)
        pairs = len(users)
        return TrainingBatch(
            entities[:found],
            local[:pairs],
            local[pairs : 2 * pairs],
            local[2 * pairs :].reshape(negatives.shape),
            weights,
            train.num_users,
            fold,
        )


def edge_folds(train: Interactions, count: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """A fold for every training pair, all of nearly the same size."""
    return (rng.permutation(train.num_pairs) % count).astype(np.int8)


def pair_weights(train: Interactions, user_power: float, item_power: float) -> NDArray[np.float32]:
    """degree^−power of both sides for every training pair, with mean 1."""
    user_side = np.maximum(train.user_degrees, 1) ** -float(user_power)
    item_side = np.maximum(train.item_degrees, 1) ** -float(item_power)
    weights = np.repeat(user_side, train.user_degrees) * item_side[train.items]
    return (weights / weights.mean()).astype(np.float32) if len(weights) else weights.astype(np.float32)


@njit(cache=True)
def _draw_unseen(rng, users, indptr, items, pool, negatives):  # type: ignore[no-untyped-def]
    for row in range(len(users)):
        seen = items[indptr[users[row]] : indptr[users[row] + 1]]
        for place in range(negatives.shape[1]):
            for _ in range(_TRIES):
                drawn = rng.integers(0, len(pool))
                candidate = pool[drawn]
                where = np.searchsorted(seen, candidate)
                fresh = where >= len(seen) or seen[where] != candidate
                for other in range(place):
                    fresh = fresh and negatives[row, other] != candidate
                if fresh:
                    break
            if not fresh:
                candidate = _next_unseen(seen, drawn, pool, negatives[row, :place])
            negatives[row, place] = candidate


@njit(cache=True)
def _next_unseen(seen, start, pool, taken):  # type: ignore[no-untyped-def]
    """The first item of the pool from `start` on that is neither seen nor taken; else one not seen; else `start`."""
    unseen = pool[start]
    for step in range(len(pool)):
        candidate = pool[(start + step) % len(pool)]
        where = np.searchsorted(seen, candidate)
        if where >= len(seen) or seen[where] != candidate:
            unseen = candidate
            free = True
            for other in taken:
                free = free and other != candidate
            if free:
                break
    return unseen


@njit(cache=True)
def _compact(users, positives, negatives, num_users, place, entities, local):  # type: ignore[no-untyped-def]
    """Distinct global entities in order of appearance, and every pair's place among them."""
    found = 0
    pairs = len(users)
    for position in range(2 * pairs + len(negatives)):
        if position < pairs:
            entity = np.int64(users[position])
        elif position < 2 * pairs:
            entity = np.int64(positives[position - pairs]) + num_users
        else:
            entity = negatives[position - 2 * pairs] + num_users
        if place[entity] < 0:
            place[entity] = found
            entities[found] = entity
            found += 1
        local[position] = place[entity]
    for position in range(found):
        place[entities[position]] = -1
    return found
