"""Training pairs and negatives, drawn compiled from one seeded generator that is passed in."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from legcf.data.interactions import Interactions

IntArray = NDArray[np.int64]
_TRIES = 100  # a user who has nearly everything gets a random item after this many draws
Order = Literal["interaction", "user"]
Negatives = Literal["each", "shared", "none"]


@dataclass(frozen=True, eq=False)
class Batch:
    """Distinct entities of a batch, and its pairs as places among them.

    `entities` are global: user u is u, item i is U + i. `negatives` is pairs × k ("each") or a list for all ("shared").
    """

    entities: IntArray
    users: IntArray
    positives: IntArray
    negatives: IntArray

    @property
    def num_pairs(self) -> int:
        return len(self.users)


class Sampler:
    """Batches of an epoch: as many pairs as there are interactions.

    order "interaction": every pair once, shuffled. order "user": a uniform user, then one of its items, so active users
    weigh less. `negatives_kind` "each" draws `negatives` distinct unseen items for every pair, "shared" draws that
    many uniform items for the whole batch, "none" draws nothing.
    """

    def __init__(
        self, train: Interactions, batch_size: int, negatives: int, order: Order, negatives_kind: Negatives
    ) -> None:
        self._train = train
        self._batch_size = batch_size
        self._negatives = negatives
        self._order = order
        self._kind = negatives_kind
        self._users = train.users()
        self._active = np.flatnonzero(train.user_degrees > 0)
        self._place = np.full(train.num_users + train.num_items, -1, dtype=np.int64)

    @property
    def steps_per_epoch(self) -> int:
        return -(-self._train.num_pairs // self._batch_size)

    def epoch(self, rng: np.random.Generator) -> Iterator[Batch]:
        train = self._train
        order = rng.permutation(train.num_pairs) if self._order == "interaction" else None
        for start in range(0, train.num_pairs, self._batch_size):
            if order is not None:
                chosen = order[start : start + self._batch_size]
            else:
                size = min(self._batch_size, train.num_pairs - start)
                users = self._active[rng.integers(0, len(self._active), size)]
                chosen = train.indptr[users] + (rng.random(size) * train.user_degrees[users]).astype(np.int64)
            yield self._batch(self._users[chosen], train.items[chosen], rng)

    def _batch(self, users: NDArray[np.int32], positives: NDArray[np.int32], rng: np.random.Generator) -> Batch:
        train = self._train
        if self._kind == "each":
            negatives = np.empty((len(users), self._negatives), dtype=np.int64)
            _draw_unseen(rng, users, train.indptr, train.items, train.num_items, negatives)
        else:
            count = min(self._negatives, train.num_items) if self._kind == "shared" else 0
            negatives = rng.choice(train.num_items, count, replace=False).astype(np.int64)
        entities = np.empty(2 * len(users) + negatives.size, dtype=np.int64)
        local = np.empty(len(entities), dtype=np.int64)
        found = _compact(users, positives, negatives.ravel(), train.num_users, self._place, entities, local)
        pairs = len(users)
        return Batch(
            entities[:found], local[:pairs], local[pairs : 2 * pairs], local[2 * pairs :].reshape(negatives.shape)
        )


@njit(cache=True)
def _draw_unseen(rng, users, indptr, items, num_items, negatives):  # type: ignore[no-untyped-def]
    for row in range(len(users)):
        seen = items[indptr[users[row]] : indptr[users[row] + 1]]
        for place in range(negatives.shape[1]):
            for attempt in range(_TRIES):
                candidate = rng.integers(0, num_items)
                where = np.searchsorted(seen, candidate)
                fresh = where >= len(seen) or seen[where] != candidate
                for other in range(place):
                    fresh = fresh and negatives[row, other] != candidate
                if fresh or attempt == _TRIES - 1:
                    negatives[row, place] = candidate
                    break


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
