# SPDX-License-Identifier: Apache-2.0
"""Lay out a map of the embedding space: t-SNE of the few hundred meta-embeddings, items between theirs. Numpy only.

Only the c meta-embeddings are laid out; the position of an item follows from its code. The model file holds none of it.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.precision import rounded
from legcf.ranking.tables.embedding_table import CodebookTable, EmbeddingTable

_MAX_POINTS = 1000  # the layout is quadratic, 2 s for these; more are laid out by principal components


@lru_cache(maxsize=1)
def spots(model: ServedModel) -> FloatArray | None:
    """Return the position of each meta-embedding on the map (c × 2), computed once per model; None without codes."""
    if not isinstance(model.item_rows, CodebookTable):
        return None
    return rounded(layout(model.item_rows.codebook), "float16")


def layout(points: FloatArray, seed: int = 0, rounds: int = 300, neighbours: float = 15.0) -> FloatArray:
    """Two coordinates a point, within [−1, 1]: near points stay near."""
    if len(points) < 5 or len(points) > _MAX_POINTS:
        return _fit(principal(points))
    # directions, not lengths, tell which meta-embeddings stand for the same taste; a sign is no difference in kind
    unit = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    distances = np.maximum(2 - 2 * np.abs(unit @ unit.T), 0).astype(np.float64)
    affinity = _affinities(distances, min(neighbours, (len(points) - 1) / 3))
    return _fit(_descend(affinity, principal(unit).astype(np.float64), rounds, seed))


def place(rows: EmbeddingTable, spots: FloatArray | None) -> FloatArray:
    """Where every row lies: between its meta-embeddings, drawn to those that carry most of it."""
    if spots is None or not isinstance(rows, CodebookTable):
        return _fit(principal(rows.vectors(slice(None))))
    lengths = np.linalg.norm(rows.codebook, axis=1)
    pull = np.abs(rows.weights) * lengths[rows.columns]
    pull **= 4  # strongly to the first, so that those who share it stand together
    pull /= np.maximum(pull.sum(axis=1, keepdims=True), 1e-30)
    places = np.zeros((len(rows), 2), dtype=np.float32)
    for k in range(pull.shape[1]):
        places += pull[:, k : k + 1] * spots[rows.columns[:, k]]
    return places


def anchors(rows: EmbeddingTable) -> NDArray[np.int64]:
    """The meta-embedding that carries most of each row: its colour on the map."""
    if not isinstance(rows, CodebookTable):
        return np.zeros(len(rows), dtype=np.int64)
    lengths = np.linalg.norm(rows.codebook, axis=1)
    strongest = (np.abs(rows.weights) * lengths[rows.columns]).argmax(axis=1)
    chosen: NDArray[np.int64] = rows.columns[np.arange(len(rows)), strongest].astype(np.int64)
    return chosen


def principal(points: FloatArray) -> FloatArray:
    """The two directions of largest variance, signs fixed so that the same points give the same picture."""
    centred = points - points.mean(axis=0)
    _, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    chosen = axes[:, ::-1][:, :2]
    chosen = chosen * np.where(chosen[np.abs(chosen).argmax(axis=0), range(chosen.shape[1])] < 0, -1, 1)
    flat = np.zeros((len(points), 2), dtype=np.float32)
    flat[:, : chosen.shape[1]] = centred @ chosen
    return flat


def _affinities(distances: NDArray[np.float64], neighbours: float) -> NDArray[np.float64]:
    """Each point's kernel width by bisection, so that it has about so many neighbours; then made symmetric."""
    n = len(distances)
    low, high = np.full(n, 1e-3), np.full(n, 1e6)
    kernel = np.zeros_like(distances)
    for _ in range(40):
        sharpness = np.sqrt(low * high)
        kernel = np.exp(-distances * sharpness[:, None])
        np.fill_diagonal(kernel, 0.0)
        kernel /= np.maximum(kernel.sum(axis=1, keepdims=True), 1e-300)
        entropy = -(kernel * np.log(np.maximum(kernel, 1e-300))).sum(axis=1)
        too_wide = entropy > np.log(neighbours)
        low, high = np.where(too_wide, sharpness, low), np.where(too_wide, high, sharpness)
    return (kernel + kernel.T) / (2 * n)


def _descend(affinity: NDArray[np.float64], start: NDArray[np.float64], rounds: int, seed: int) -> NDArray[np.float64]:
    """t-SNE's gradient descent with momentum and early exaggeration."""
    rng = np.random.default_rng(seed)
    places = 1e-2 * start / max(float(start.std()), 1e-12) + 1e-4 * rng.standard_normal(start.shape)
    speed, gains = np.zeros_like(places), np.ones_like(places)
    step = max(len(places) / 4.0, 50.0)
    for turn in range(rounds):
        pull = affinity * (8.0 if turn < rounds // 4 else 1.0)
        squares = (places**2).sum(axis=1)
        near = 1.0 / (1.0 + np.maximum(squares[:, None] + squares - 2 * places @ places.T, 0))
        np.fill_diagonal(near, 0.0)
        force = (pull - near / max(float(near.sum()), 1e-300)) * near
        gradient = 4 * (force.sum(axis=1)[:, None] * places - force @ places)
        gains = np.clip(np.where(np.sign(gradient) != np.sign(speed), gains + 0.2, gains * 0.8), 0.01, 10)
        speed = (0.5 if turn < rounds // 4 else 0.8) * speed - step * gains * gradient
        places = places + speed
        places -= places.mean(axis=0)
    return places


def _fit(places: NDArray[np.floating]) -> FloatArray:
    centred = places - places.mean(axis=0)
    reach = np.quantile(np.abs(centred), 0.995) if centred.size else 0.0
    fitted: FloatArray = np.clip(centred / max(float(reach), 1e-12), -1.2, 1.2).astype(np.float32)
    return fitted
