# SPDX-License-Identifier: Apache-2.0
"""Make vectors of users from their items, whether or not they were trained on. Numpy only.

The items are fixed, so a user is the solution of one d × d system (the half step of ALS, with the equation of
`modelfile.served_model.FoldIn`), and how much each entry of the history contributes to a score follows from the same
system.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, Positions, Square, sorted_unique
from legcf.data.interactions import Interactions
from legcf.modelfile.served_model import FoldIn, ServedModel
from legcf.ranking.popularity import at_least_one
from legcf.ranking.recency import recent_profile
from legcf.ranking.tables.embedding_table import EmbeddingTable, measure
from legcf.ranking.tables.pooling import Pooling

if TYPE_CHECKING:
    from legcf.core.progress import Task

_MOST_TOGETHER = 1024
_MOST_NUMBERS = 2**17  # in the largest array of a batch: 1 MB


@dataclass(frozen=True)
class UserProfile:
    """Hold a request in positions: the user's vector and the items it is known to have."""

    vector: FloatArray
    history: Positions
    relative: FloatArray | None = None
    """How much each of these items counts, in units of their mean; None where all count alike."""
    disliked: Positions = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """Items that the user does not want."""


def weighed_history(
    model: ServedModel, user: int | None, known: Positions, kept: Positions, news: Positions
) -> tuple[Positions, FloatArray | None]:
    """Return what is kept of a user's known items with the news, and how much each counts, as in a `UserProfile`."""
    stored = None if user is None else model.history
    half_life = None if model.pooling is None else model.pooling.half_life
    if half_life is not None and len(news):
        weights = None if stored is None or user is None else stored.some(user, user + 1).weights
        return recent_profile(kept, None if weights is None else weights[np.isin(known, kept)], news, half_life)
    history = sorted_unique(np.concatenate([kept, news])) if len(news) else kept
    return history, None if stored is None or user is None else stored.relative(user, history)


class FoldInSolver:
    """Solve vectors of users from the rows of items. `gram` is theirs (`measure`), if it is at hand."""

    def __init__(self, rows: EmbeddingTable, counts: FloatArray, settings: FoldIn, gram: Square | None = None) -> None:
        self._rows, self._counts, self.settings, self._gram = rows, counts, settings, gram

    @cached_property
    def _whole(self) -> Square:
        """Return A = unobserved · VᵀV + ridge, the part that is the same for everybody."""
        total = measure(self._rows)[0] if self._gram is None else self._gram
        mean = float(np.trace(total)) / len(total) or 1.0
        # the floor keeps the system solvable when VᵀV is singular (fewer rows than dimensions, all-zero vectors)
        ridge = max(self.settings.ridge, 1e-9) * mean
        return self.settings.unobserved * total + ridge * np.eye(len(total))

    @cached_property
    def _inverse(self) -> Square:
        inverse = np.linalg.inv(self._whole)
        return (inverse + inverse.T) / 2

    def prepare(self) -> None:
        """Compute what every answer shares, so that the first request does not wait for it."""
        _ = self._inverse

    def vector(self, history: Positions, relative: FloatArray | None = None) -> FloatArray:
        """Return the vector of a history, whose items weigh alike or `relative` to each other; zero without items."""
        vector: FloatArray = self.vectors(self._single(history, relative))[0]
        return vector

    def vectors(self, histories: Interactions, task: "Task | None" = None) -> FloatArray:
        """Return the vector of every user, solving those with histories of like length together in bounded memory."""
        out = np.zeros((histories.num_users, self._rows.width), dtype=np.float32)
        lengths = histories.user_degrees
        order = np.argsort(lengths, kind="stable")
        done = int(np.searchsorted(lengths[order], 1))  # users without a history keep a vector of zeros
        while done < len(order):
            # as many as fit: the last, with the longest history, decides how many numbers each takes
            most = order[done : done + _MOST_TOGETHER]
            numbers = np.arange(1, len(most) + 1) * lengths[most] * self._rows.width
            users = most[: max(1, int(np.searchsorted(numbers, _MOST_NUMBERS, side="right")))]
            out[users] = self._solve(histories, users, int(lengths[users[-1]]))
            done += len(users)
            if task is not None:
                task.advance(len(users))
        return out

    def _solve(self, histories: Interactions, users: Positions, longest: int) -> NDArray[np.floating]:
        """Return the vectors of users whose histories have at most `longest` items."""
        vectors, weights = self._observed(histories, users, longest)
        if longest >= self._rows.width:
            right = vectors.transpose(0, 2, 1) @ weights[..., None]
            solved: NDArray[np.floating] = np.linalg.solve(self._system(vectors, weights), right)[..., 0]
        else:
            # (A + VᵀWV)⁻¹ VᵀW1 = A⁻¹Vᵀ (W⁻¹ + VA⁻¹Vᵀ)⁻¹ 1: a system as large as the history, not as the vectors; with
            # the roots of W on both sides, weights may be zero.
            roots = np.sqrt(weights)[..., None]
            vectors *= roots
            turned = (vectors.reshape(-1, self._rows.width) @ self._inverse).reshape(vectors.shape)
            within = np.eye(longest) + turned @ vectors.transpose(0, 2, 1)
            solved = (turned.transpose(0, 2, 1) @ np.linalg.solve(within, roots))[..., 0]
        return self.settings.scale * solved

    def contributions(self, history: Positions, targets: FloatArray, relative: FloatArray | None = None) -> FloatArray:
        """Return what each entry of the history adds to the score of each target (history × targets)."""
        if not len(history):
            return np.zeros((0, len(targets)), dtype=np.float32)
        single = self._single(history, relative)
        vectors, weights = (part[0] for part in self._observed(single, np.zeros(1, dtype=np.int64), len(history)))
        directions = np.linalg.solve(self._system(vectors, weights), targets.T.astype(np.float64))
        parts: FloatArray = (self.settings.scale * weights[:, None] * (vectors @ directions)).astype(np.float32)
        return parts

    def _single(self, history: Positions, relative: FloatArray | None) -> Interactions:
        indptr = np.array([0, len(history)], dtype=np.int64)
        return Interactions(indptr, history.astype(np.int32), len(self._rows), relative)

    def _observed(
        self, histories: Interactions, users: Positions, longest: int
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Return v_j and w_j of these histories, padded to the longest with entries of weight zero."""
        offsets = histories.indptr[users][:, None] + np.arange(longest)
        real = np.arange(longest) < histories.user_degrees[users][:, None]
        offsets = np.where(real, offsets, 0)
        items = histories.items[offsets]
        weights = np.where(real, self._counts[items].astype(np.float64) ** -self.settings.damping, 0.0)
        if histories.weights is not None:
            weights *= histories.weights[offsets]
        weights /= weights.sum(axis=1, keepdims=True) / real.sum(axis=1, keepdims=True)
        vectors: NDArray[np.floating] = self._rows.vectors(items.ravel()).reshape(*items.shape, -1).astype(np.float64)
        return vectors, weights

    def _system(self, vectors: NDArray[np.floating], weights: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return A + VᵀWV, of one history or of several."""
        system: NDArray[np.floating] = self._whole + np.swapaxes(vectors * weights[..., None], -1, -2) @ vectors
        return system


class PooledUsers:
    """Sum users from their items, for models in which users are just that: nothing is solved, nothing approximated."""

    def __init__(self, rows: EmbeddingTable, pooling: Pooling) -> None:
        self._rows, self._pooling = rows, pooling

    def prepare(self) -> None:
        _ = self._pooling.item_weights

    def vector(self, history: Positions, relative: FloatArray | None = None) -> FloatArray:
        return self._pooling.vector(history, self._rows.vectors(history), relative)

    def vectors(self, histories: Interactions, task: "Task | None" = None) -> FloatArray:
        # For many pairs the vectors of all items are made once; for few, of those that are asked for.
        many = histories.num_pairs > len(self._rows)
        items = self._rows.vectors(slice(None)).__getitem__ if many else self._rows.vectors
        vectors = self._pooling.vectors(histories, items, self._rows.width)
        if task is not None:
            task.advance(histories.num_users)
        return vectors

    def contributions(self, history: Positions, targets: FloatArray, relative: FloatArray | None = None) -> FloatArray:
        return self._pooling.parts(history, self._rows.vectors(history), targets, relative)


UserMaker = FoldInSolver | PooledUsers
"""Makes vectors of users from their items."""


def user_maker(model: ServedModel, gram: Square | None = None) -> UserMaker:
    """Return what makes users of items in this model; `gram` is that of its item rows, if it is at hand."""
    if model.pooling is not None:
        return PooledUsers(model.item_rows, model.pooling)
    return FoldInSolver(model.item_rows, at_least_one(model.popularity), model.fold_in, gram)


def blended(maker: UserMaker, trained: FloatArray, news: Positions) -> FloatArray:
    """Add the new items to a trained vector, as long as it: without a stored history there is nothing else."""
    solved = maker.vector(news)
    length = float(np.linalg.norm(solved))
    return trained + solved * (float(np.linalg.norm(trained)) / length if length else 0.0)
