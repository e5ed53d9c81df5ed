# SPDX-License-Identifier: Apache-2.0
"""Vectors for those who were not trained on: a user from its items, an item from its users. Numpy only.

The known side is fixed, so the new vector is the solution of one d × d system (the half step of ALS), and how much each
entry of the history contributes to a score follows from the same system.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, Positions, Square
from legcf.data.interactions import Interactions
from legcf.modelfile.served_model import FoldIn, ServedModel
from legcf.ranking.popularity import at_least_one
from legcf.ranking.tables.embedding_table import EmbeddingTable, measure
from legcf.ranking.tables.pooling import Pooling

if TYPE_CHECKING:
    from legcf.core.progress import Task

_MOST_TOGETHER = 1024
_MOST_NUMBERS = 2**17  # in the largest array of a batch: 1 MB


class UserMaker(Protocol):
    """Vectors of users from their items."""

    def prepare(self) -> None:
        """Compute what every answer shares, so that the first request does not wait for it."""

    def vector(self, history: Positions, relative: FloatArray | None = None) -> FloatArray:
        """The vector of someone with this history, whose items count alike or so much each; zero without one."""

    def vectors(self, histories: Interactions, task: "Task | None" = None) -> FloatArray:
        """The vector of everyone. Memory stays bounded."""

    def contributions(self, history: Positions, targets: FloatArray, relative: FloatArray | None = None) -> FloatArray:
        """What each entry of the history adds to the score of each target (history × targets)."""


def user_maker(model: ServedModel, gram: "Square | None" = None) -> UserMaker:
    """How this model makes users of items; `gram` is that of its item rows, if it is at hand."""
    if model.pooling is not None:
        return PooledUsers(model.item_rows, model.pooling)
    return FoldInSolver(model.item_rows, at_least_one(model.popularity), model.fold_in, gram)


class FoldInSolver:
    """Solves vectors of one side from the rows of the other. `gram` is theirs (`rows.measure`), if it is at hand."""

    def __init__(self, rows: EmbeddingTable, counts: FloatArray, settings: FoldIn, gram: Square | None = None) -> None:
        self._rows, self._counts, self.settings, self._gram = rows, counts, settings, gram

    @cached_property
    def _whole(self) -> Square:
        """unobserved · VᵀV + ridge: the part that is the same for everybody."""
        total = measure(self._rows)[0] if self._gram is None else self._gram
        mean = float(np.trace(total)) / len(total) or 1.0
        # the floor keeps the system solvable when VᵀV is singular (fewer rows than dimensions, all-zero vectors)
        ridge = max(self.settings.ridge, 1e-9) * mean
        whole: Square = self.settings.unobserved * total + ridge * np.eye(len(total))
        return whole

    @cached_property
    def _inverse(self) -> Square:
        inverse = np.linalg.inv(self._whole)
        balanced: Square = (inverse + inverse.T) / 2
        return balanced

    def prepare(self) -> None:
        """Compute what every solution shares, so that the first request does not wait for it."""
        _ = self._inverse

    def vector(self, history: Positions, relative: FloatArray | None = None) -> FloatArray:
        """The vector of someone with this history, whose items count alike or so much each; zero without one."""
        single = np.array([0, len(history)], dtype=np.int64)
        histories = Interactions(single, history.astype(np.int32), len(self._rows), relative)
        vector: FloatArray = self.vectors(histories)[0]
        return vector

    def vectors(self, histories: Interactions, task: "Task | None" = None) -> FloatArray:
        """The vector of everyone, those with histories of like length together. Memory stays bounded."""
        out = np.zeros((histories.num_users, self._rows.width), dtype=np.float32)
        lengths = histories.user_degrees
        order = np.argsort(lengths, kind="stable")
        done = int(np.searchsorted(lengths[order], 1))  # nothing is known of those with no history
        while done < len(order):
            # as many as fit: the last, with the longest history, decides how much room each takes
            most = order[done : done + _MOST_TOGETHER]
            room = np.arange(1, len(most) + 1) * lengths[most] * self._rows.width
            chosen = most[: max(1, int(np.searchsorted(room, _MOST_NUMBERS, side="right")))]
            out[chosen] = self._solve(histories, chosen, int(lengths[chosen[-1]]))
            done += len(chosen)
            if task is not None:
                task.advance(len(chosen))
        return out

    def _solve(self, histories: Interactions, chosen: Positions, longest: int) -> NDArray[np.floating]:
        """All histories padded to the longest with entries of weight zero."""
        places = histories.indptr[chosen][:, None] + np.arange(longest)
        real = np.arange(longest) < histories.user_degrees[chosen][:, None]
        places = np.where(real, places, 0)
        items = histories.items[places]
        weights = np.where(real, self._counts[items].astype(np.float64) ** -self.settings.damping, 0.0)
        if histories.weights is not None:
            weights *= histories.weights[places]
        weights /= weights.sum(axis=1, keepdims=True) / real.sum(axis=1, keepdims=True)
        vectors: NDArray[np.floating] = self._rows.vectors(items.ravel()).reshape(*items.shape, -1).astype(np.float64)
        if longest >= self._rows.width:
            systems = self._whole + (vectors * weights[..., None]).transpose(0, 2, 1) @ vectors
            wanted = vectors.transpose(0, 2, 1) @ weights[..., None]
            solved: NDArray[np.floating] = np.linalg.solve(systems, wanted)[..., 0]
        else:
            # (A + VᵀWV)⁻¹ VᵀW1 = A⁻¹Vᵀ (W⁻¹ + VA⁻¹Vᵀ)⁻¹ 1: a system as large as the history, not as the vectors; with
            # the roots of W on both sides, weights may be zero.
            roots = np.sqrt(weights)[..., None]
            vectors *= roots
            turned = (vectors.reshape(-1, self._rows.width) @ self._inverse).reshape(vectors.shape)
            within = np.eye(longest) + turned @ vectors.transpose(0, 2, 1)
            solved = (turned.transpose(0, 2, 1) @ np.linalg.solve(within, roots))[..., 0]
        result: NDArray[np.floating] = self.settings.scale * solved
        return result

    def contributions(self, history: Positions, targets: FloatArray, relative: FloatArray | None = None) -> FloatArray:
        """What each entry of the history adds to the score of each target (history × targets).

        A column sums up to `vector(history) · target`.
        """
        if not len(history):
            return np.zeros((0, len(targets)), dtype=np.float32)
        vectors, weights = self._observed(history, relative)
        directions = np.linalg.solve(self._system(vectors, weights), targets.T.astype(np.float64))
        parts: FloatArray = (self.settings.scale * weights[:, None] * (vectors @ directions)).astype(np.float32)
        return parts

    def _observed(
        self, history: Positions, relative: FloatArray | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        weights = self._counts[history].astype(np.float64) ** -self.settings.damping
        if relative is not None:
            weights *= relative
        return self._rows.vectors(history).astype(np.float64), weights / weights.mean()

    def _system(self, vectors: NDArray[np.float64], weights: NDArray[np.float64]) -> Square:
        system: Square = self._whole + (vectors * weights[:, None]).T @ vectors
        return system


class PooledUsers:
    """Users of a model in which they are the weighted sums of their items: nothing is solved, nothing approximated."""

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
