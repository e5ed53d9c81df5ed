"""Vectors for those who were not trained on: a user from its items, an item from its users. Numpy only.

The known side is fixed, so the new vector is the solution of one d × d system (the half step of ALS), and how much each
entry of the history contributes to a score follows from the same system.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from legcf.serving.artifact import FoldIn
from legcf.serving.rows import FloatArray, Positions, Rows, gram


class FoldInSolver:
    """Solves vectors of one side from the rows of the other."""

    def __init__(self, rows: Rows, counts: FloatArray, settings: FoldIn) -> None:
        self._rows, self._counts, self.settings = rows, counts, settings

    @cached_property
    def _whole(self) -> NDArray[np.float64]:
        """unobserved · VᵀV + ridge: the part that is the same for everybody."""
        total = gram(self._rows)
        mean = float(np.trace(total)) / len(total) or 1.0
        # the floor keeps the system solvable when VᵀV is singular (fewer rows than dimensions, all-zero vectors)
        ridge = max(self.settings.ridge, 1e-9) * mean
        whole: NDArray[np.float64] = self.settings.unobserved * total + ridge * np.eye(len(total))
        return whole

    def prepare(self) -> None:
        """Compute what every solution shares, so that the first request does not wait for it."""
        _ = self._whole

    def vector(self, history: Positions) -> FloatArray:
        """The vector of someone with this history; zero without one."""
        if not len(history):
            return np.zeros(self._rows.width, dtype=np.float32)
        vectors, weights = self._observed(history)
        solved = np.linalg.solve(self._system(vectors, weights), weights @ vectors)
        vector: FloatArray = (self.settings.scale * solved).astype(np.float32)
        return vector

    def contributions(self, history: Positions, targets: FloatArray) -> FloatArray:
        """What each entry of the history adds to the score of each target (history × targets).

        A column sums up to `vector(history) · target`.
        """
        if not len(history):
            return np.zeros((0, len(targets)), dtype=np.float32)
        vectors, weights = self._observed(history)
        directions = np.linalg.solve(self._system(vectors, weights), targets.T.astype(np.float64))
        parts: FloatArray = (self.settings.scale * weights[:, None] * (vectors @ directions)).astype(np.float32)
        return parts

    def _observed(self, history: Positions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        weights = self._counts[history].astype(np.float64) ** -self.settings.damping
        return self._rows.vectors(history).astype(np.float64), weights / weights.mean()

    def _system(self, vectors: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        system: NDArray[np.float64] = self._whole + (vectors * weights[:, None]).T @ vectors
        return system


def code_vector(vector: FloatArray, codebook: FloatArray, t: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Orthogonal matching pursuit for one row: t columns and weights with Σ weights · codebook[columns] ≈ vector."""
    book = codebook.astype(np.float64)
    lengths = np.linalg.norm(book, axis=1)
    usable = lengths > 0
    residual = vector.astype(np.float64)
    chosen: list[int] = []
    weights: NDArray[np.float64] = np.zeros(0)
    for _ in range(min(t, int(usable.sum()))):
        gain = np.where(usable, np.abs(book @ residual) / np.maximum(lengths, 1e-30), -1.0)
        gain[chosen] = -1.0
        chosen.append(int(gain.argmax()))
        weights = np.asarray(np.linalg.lstsq(book[chosen].T, vector.astype(np.float64), rcond=None)[0], np.float64)
        residual = vector - weights @ book[chosen]
    order = np.argsort(-np.abs(weights), kind="stable")
    columns, values = np.zeros(t, dtype=np.int64), np.zeros(t, dtype=np.float32)
    columns[: len(order)], values[: len(order)] = np.array(chosen, dtype=np.int64)[order], weights[order]
    return columns, values
