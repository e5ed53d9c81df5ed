# SPDX-License-Identifier: Apache-2.0
"""Hold everything that decides which items a user is shown, in which order: one value, made once, held by all.

    score(u, i) = h_u · h_i + bias_i + what the lists of the user's items add

A user of whom nothing is known is shown what is popular. Numpy only.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from legcf.assignment.assignment import Assignment
from legcf.core.arrays import FloatArray, IntArray, Positions, gram
from legcf.data.interactions import Interactions
from legcf.ranking.tables.embedding_table import EmbeddingTable
from legcf.ranking.tables.pooling import Pooling

if TYPE_CHECKING:  # lists are fitted to rankings, so they import this module
    from legcf.ranking.item_lists.lists import ItemLists

_TOGETHER = 256  # users without a vector whose scores stand in memory at once


@dataclass(frozen=True, eq=False)
class Codes:
    """Hold a codebook and the items' rows of S, whose product is the item vectors."""

    codebook: FloatArray
    items: Assignment


class HistoryFilter(Protocol):
    """Rank by the training graph itself, which no model file holds."""

    def score(self, histories: Interactions, scores: FloatArray) -> None:
        """Write the scores of all items for every history into the rows of `scores`."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rank all items for every user."""

    users: FloatArray
    """U × d, propagated; zero for users without a history."""
    items: FloatArray
    """I × d, propagated."""
    histories: Interactions
    """What every user is known to have: left out of its recommendations, and what lists are added for."""
    bias: FloatArray | None = None
    """Added to an item's scores."""
    lists: "ItemLists | None" = None
    """What the items of a user add beside the vectors."""
    filter: "HistoryFilter | None" = None
    """What scores histories instead of inner products, where a method ranks by the graph itself."""
    pooling: Pooling | None = None
    """Where users are nothing but their histories."""
    codes: Codes | None = None
    """Where the item vectors are nothing but codes: no graph is needed to make them."""
    rows: EmbeddingTable | None = None
    """The items as a file keeps them, where they have been rounded to that (`precision.as_stored`)."""
    dislikes: Interactions | None = None
    """What users do not want: left out of their recommendations, whatever they have."""
    repeats: bool = False
    """Whether users take again what they have, and so are shown it."""
    meta: FloatArray | None = None
    """H_meta (c × d), where the layer has meta-embeddings."""
    popularity: NDArray[np.integer] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """How many users have each item; counted in the first histories by default."""

    def __post_init__(self) -> None:
        if len(self.popularity) != len(self.items):
            object.__setattr__(self, "popularity", self.histories.item_degrees)

    @property
    def num_users(self) -> int:
        return len(self.users)

    @property
    def num_items(self) -> int:
        return len(self.items)

    @cached_property
    def hidden(self) -> Interactions:
        """Return the pairs that are left out of recommendations."""
        return self.left_out(not self.repeats)

    def left_out(self, exclude_seen: bool) -> Interactions:
        """Return dislikes, and what users have where that is not to be shown."""
        nothing = Interactions.empty(self.num_users, self.num_items)
        seen = self.histories if exclude_seen else nothing
        return seen if self.dislikes is None else replace(nothing.joined(seen, self.dislikes), weights=None)

    def add_bias_and_history(self, scores: FloatArray, users: Positions) -> NDArray[np.bool_]:
        """Turn the inner products of these users with all items into scores, within the array.

        Returns for whom nothing tells one item from another, neither a vector nor what a history adds: such strangers
        are shown what is popular.
        """
        if self.filter is not None:
            self.filter.score(self.histories.of_users(users), scores)
        if self.lists is not None:
            self.lists.add_for(scores, self.histories.of_users(users))
        cold_users = np.logical_not(self.users[users].any(axis=1))
        cold_users[cold_users] = np.logical_not(scores[cold_users].any(axis=1))
        if self.bias is not None:
            scores += self.bias
        scores[cold_users] = self.popularity
        return cold_users

    def cold_users(self, users: Positions) -> NDArray[np.bool_]:
        """Mark those of these users who are shown what is popular."""
        positions = np.asarray(users)
        cold = np.logical_not(self.users[positions].any(axis=1))
        without_vector = np.flatnonzero(cold)
        for some in np.array_split(without_vector, len(without_vector) // _TOGETHER + 1):
            no_products = np.zeros((len(some), self.num_items), dtype=np.float32)
            cold[some] = self.add_bias_and_history(no_products, positions[some])
        return cold

    def most_popular(self, k: int) -> tuple[IntArray, FloatArray]:
        """Return what anyone is shown of whom nothing is known: k items and their numbers of users."""
        first = np.argsort(-self.popularity, kind="stable")[:k].astype(np.int32)
        return first, self.popularity[first].astype(np.float32)

    def with_histories(self, histories: Interactions) -> "Ranking":
        """Return the same with other histories: vectors made of them follow, what was learnt stays."""
        users, items = self.users, self.items
        if self.pooling is not None:
            users = self.pooling.vectors(histories, items.__getitem__, items.shape[1])
        return replace(self, users=users, histories=histories)

    def of_users(self, users: Positions | None) -> "Ranking":
        """Return the same for some users alone, in this order, who are numbered anew; None: for all."""
        if users is None:
            return self
        dislikes = None if self.dislikes is None else self.dislikes.of_users(users)
        return replace(self, users=self.users[users], histories=self.histories.of_users(users), dislikes=dislikes)

    def with_recency(self, histories: Interactions, half_life: float) -> "Ranking":
        """Return the same with histories that are weighed by this half-life (`recency.recent`)."""
        assert self.pooling is not None
        return replace(self.with_histories(histories), pooling=replace(self.pooling, half_life=half_life))

    def with_norm_power(self, power: float) -> "Ranking":
        """Raise the lengths of all vectors to this power; 1 leaves them as they are."""
        if power == 1:
            return self
        users, items = _shortened(self.users, power), _shortened(self.items, power)
        return replace(self, users=users, items=items, codes=None, pooling=None, rows=None)


def _shortened(vectors: FloatArray, power: float) -> FloatArray:
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    shortened: FloatArray = vectors * lengths ** np.float32(power - 1)
    return shortened


def product_spread(user_vectors: FloatArray, item_vectors: FloatArray) -> float:
    """Return the standard deviation of all inner products of users and items, from two d × d matrices."""
    if not len(user_vectors) or not len(item_vectors):
        return 0.0
    of_users, of_items = (gram(vectors, exact=False) / len(vectors) for vectors in (user_vectors, item_vectors))
    square = float(np.sum(of_users * of_items))
    mean = float(user_vectors.mean(axis=0, dtype=np.float64) @ item_vectors.mean(axis=0, dtype=np.float64))
    return float(np.sqrt(max(square - mean**2, 0.0)))
