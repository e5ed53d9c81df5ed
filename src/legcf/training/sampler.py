# SPDX-License-Identifier: Apache-2.0
"""Draw training pairs and negatives, compiled, from one seeded generator that is passed in."""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from legcf.core import distributed
from legcf.core.arrays import LongArray
from legcf.core.config import TrainingConfig
from legcf.core.errors import UserError
from legcf.core.jit import njit
from legcf.data.interactions import MANY_PAIRS, Interactions

WHOLE = -1
"""The view of the graph with all its edges; view f ≥ 0 is the graph without the edges of fold f."""
_TRIES = 100  # for a user who has nearly everything, the search goes on item by item after this many draws
Negatives = Literal["each", "shared", "none"]
"""Distinct unseen items for every pair, items that a batch shares, or none because a batch is the whole data."""


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """Hold the distinct entities of a batch, and its pairs as positions among them.

    `entities` are global: user u is u, item i is U + i. `negatives` is pairs × k ("each") or a list for all ("shared").
    `weights` of the pairs have mean 1 over the data. `num_users` is U. All pairs are of one fold, or `fold` is WHOLE.
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
    """Draw the batches of an epoch: as many pairs as there are interactions.

    `training.order` "interaction" takes every pair once, shuffled; "user" takes a uniform user, then one of its items,
    so active users weigh less. `kind` "each" draws `training.negatives` distinct unseen items for every pair, "shared"
    draws that many uniform items for the whole batch, "none" gives all pairs at once and draws nothing. With a
    `training.negative_pool`, those of "each" come from so many items that the batch draws first: every item is as
    likely as before, but a batch has far fewer distinct entities, which is what a step costs. A pair weighs
    user degree^−user_power · item degree^−item_power. With `folds` (a number for every pair), a batch holds pairs of
    one fold, so that its vectors can come from the graph without them. Pairs that are `seen` are no negatives; the
    training pairs themselves by default. `steps` makes an epoch so many batches, of a part of a pass or of several;
    of a small part of very many pairs, they are drawn with repetition.
    """

    def __init__(
        self,
        train: Interactions,
        training: TrainingConfig,
        kind: Negatives,
        folds: NDArray[np.integer] | None = None,
        seen: Interactions | None = None,
        steps: int | None = None,
    ) -> None:
        self._train = train
        self._seen = train if seen is None else seen
        self._batch_size = training.batch_size if kind != "none" else max(train.num_pairs, 1)
        self._negatives, self._order, self._kind = training.negatives, training.order, kind
        self._folds, self._steps = folds, steps
        pool = training.negative_pool
        self._pool = None if pool is None or pool >= train.num_items else max(pool, training.negatives)
        self._local = slice(0, train.num_pairs)  # the pairs whose users, items and weights this process has
        self._users, self._items = train.users(), train.items
        self._weights = pair_weights(train, training.user_power, training.item_power)
        self._active = np.flatnonzero(train.user_degrees > 0)
        self._all_items = np.arange(train.num_items, dtype=np.int64)
        self._position = np.full(train.num_users + train.num_items, -1, dtype=np.int64)

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
        """Return the sampler of this rank: of every batch that all ranks draw alike, it has the pairs of its own users.

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
        part._local = local = distributed.local_rows(shares)
        part._users, part._items = self._users[local].copy(), self._items[local].copy()
        part._weights = self._weights[local].copy()
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
        local_rng = distributed.local_generator(rng)
        for fold, drawn in self._drawn_pairs(rng):
            if distributed.world_size() > 1:  # this rank has some of them
                drawn = drawn[(drawn >= self._local.start) & (drawn < self._local.stop)] - self._local.start
            yield self._batch(drawn, fold, rng, local_rng)

    def _drawn_pairs(self, rng: np.random.Generator) -> Iterator[tuple[int, LongArray]]:
        train, size = self._train, self._batch_size
        if self._order == "user":
            for start in range(0, train.num_pairs, size):
                users = self._active[rng.integers(0, len(self._active), min(size, train.num_pairs - start))]
                offsets = (rng.random(len(users)) * train.user_degrees[users]).astype(np.int64)
                yield WHOLE, train.indptr[users] + offsets
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

    def _whole(self) -> TrainingBatch:
        train = self._train
        entities = np.arange(train.num_users + train.num_items)
        users, positives = self._users.astype(np.int64), train.items + np.int64(train.num_users)
        none = np.empty(0, dtype=np.int64)
        return TrainingBatch(entities, users, positives, none, self._weights, train.num_users, WHOLE)

    def _batch(
        self, pairs: LongArray, fold: int, rng: np.random.Generator, local_rng: np.random.Generator
    ) -> TrainingBatch:
        """Add negatives to pairs; `rng` draws what ranks have in common, `local_rng` what each draws for its own."""
        train = self._train
        weights = self._weights[pairs]
        if not len(pairs):  # a last batch may be so small that a rank has nothing of it: a pair of no weight stands in
            pairs, weights = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.float32)
        users, positives = self._users[pairs], self._items[pairs]
        if self._kind == "each":
            negatives = np.empty((len(users), self._negatives), dtype=np.int64)
            pool = self._all_items
            if self._pool is not None:
                pool = rng.choice(train.num_items, self._pool, replace=False).astype(np.int64)
            _draw_unseen(local_rng, users, self._seen.indptr, self._seen.items, pool, negatives)
        else:
            count = min(self._negatives, train.num_items)
            negatives = rng.choice(train.num_items, count, replace=False).astype(np.int64)
        entities = np.empty(2 * len(users) + negatives.size, dtype=np.int64)
        local = np.empty(len(entities), dtype=np.int64)
        distinct = _compact(users, positives, negatives.ravel(), train.num_users, self._position, entities, local)
        of_users, of_positives, rest = np.split(local, [len(users), 2 * len(users)])
        of_negatives = rest.reshape(negatives.shape)
        return TrainingBatch(entities[:distinct], of_users, of_positives, of_negatives, weights, train.num_users, fold)


def edge_folds(train: Interactions, count: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Draw a fold for every training pair, all of nearly the same size."""
    return (rng.permutation(train.num_pairs) % count).astype(np.int8)


def pair_weights(train: Interactions, user_power: float, item_power: float) -> NDArray[np.float32]:
    """Return degree^−power of both sides for every training pair, with mean 1."""
    user_side = np.maximum(train.user_degrees, 1) ** -float(user_power)
    item_side = np.maximum(train.item_degrees, 1) ** -float(item_power)
    weights = np.repeat(user_side, train.user_degrees) * item_side[train.items]
    return (weights / weights.mean()).astype(np.float32) if len(weights) else weights.astype(np.float32)


@njit(cache=True)
def _draw_unseen(rng, users, indptr, items, pool, negatives):  # type: ignore[no-untyped-def]
    for row in range(len(users)):
        seen = items[indptr[users[row]] : indptr[users[row] + 1]]
        for column in range(negatives.shape[1]):
            for _ in range(_TRIES):
                drawn = rng.integers(0, len(pool))
                candidate = pool[drawn]
                where = np.searchsorted(seen, candidate)
                fresh = where >= len(seen) or seen[where] != candidate
                for other in range(column):
                    fresh = fresh and negatives[row, other] != candidate
                if fresh:
                    break
            if not fresh:
                candidate = _next_unseen(seen, drawn, pool, negatives[row, :column])
            negatives[row, column] = candidate


@njit(cache=True)
def _next_unseen(seen, start, pool, taken):  # type: ignore[no-untyped-def]
    """Return the first item of the pool from `start` on, neither seen nor taken; else one not seen; else `start`."""
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
def _compact(users, positives, negatives, num_users, position, entities, local):  # type: ignore[no-untyped-def]
    """List the distinct global entities in order of appearance, and every pair's position among them."""
    distinct = 0
    pairs = len(users)
    for index in range(2 * pairs + len(negatives)):
        if index < pairs:
            entity = np.int64(users[index])
        elif index < 2 * pairs:
            entity = np.int64(positives[index - pairs]) + num_users
        else:
            entity = negatives[index - 2 * pairs] + num_users
        if position[entity] < 0:
            position[entity] = distinct
            entities[distinct] = entity
            distinct += 1
        local[index] = position[entity]
    for index in range(distinct):
        position[entities[index]] = -1
    return distinct
