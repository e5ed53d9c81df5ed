# SPDX-License-Identifier: Apache-2.0
"""Draw the map of items and its colours: items stand beside those that are most like them. Numpy only.

The c meta-embeddings are laid out first (t-SNE), every item between its own. There items of one code lie on one point,
and items that are alike by other meta-embeddings far apart. So the points are moved: every item is drawn to the items
most like it, as `/similar` finds them, and pushed away from others at random (the forces of UMAP). The model file holds
none of it; the same model gives the same map.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, Positions
from legcf.core.random_streams import fixed_generator
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.popularity import at_least_one, trust
from legcf.ranking.precision import rounded
from legcf.ranking.tables.embedding_table import EmbeddingTable
from legcf.scoring.scorer import Scorer

# None of these numbers was searched for: the map is a picture, and its quality is in docs/serving.md ("The page").
_MAX_LAID_OUT = 1000  # meta-embeddings: the layout is quadratic, 2 s for these; more lie by principal components
_TSNE_ROUNDS = 300
_TSNE_NEIGHBOURS = 15.0  # the perplexity
_MAP_ITEMS = 4000  # the best-known items; more would neither be seen nor travel well
_MIN_GROUP = 3  # items of a group that the page names
_MAX_GROUPS = 40
_ATTRACTING = 10  # items that each is drawn to
_REPELLING = 4  # items that each is pushed from, for each that it is drawn to
_ROUNDS = 100
_HALF_WIDTH = 12.0  # of the map while points move; the distance of neighbours is about 1
_BLOCK = 512  # items whose cosines with all others are computed at once
_Points = NDArray[np.float64]


def hues(model: ServedModel) -> list[int]:
    """Return a colour for each meta-embedding: by its direction on the map, so that regions show, a little off its
    neighbours'."""
    points = meta_positions(model)
    if points is None:
        return [220]
    around = np.degrees(np.arctan2(points[:, 1], points[:, 0]))
    around += 25 * np.sin(2.4 * np.arange(len(around)))
    degrees: list[int] = (around % 360).astype(int).tolist()
    return degrees


def item_map(scorer: Scorer, by_popularity: Sequence[int]) -> dict[str, Any]:
    """Return points, colours and names for the canvas, of the best-known items."""
    model = scorer.model
    shown_items = np.array(by_popularity[:_MAP_ITEMS], dtype=np.int64)
    points = item_positions(scorer, shown_items)
    metas = _strongest_metas(model.item_rows)[shown_items]
    counts = at_least_one(model.popularity)[shown_items]
    return {
        "ids": model.items.external(shown_items),
        "titles": [model.item_name(item) for item in shown_items.tolist()],
        "x": np.round(points[:, 0], 4).astype(float).tolist(),
        "y": np.round(points[:, 1], 4).astype(float).tolist(),
        "meta": metas.tolist(),
        "size": np.round(np.log2(1 + counts), 2).astype(float).tolist(),
        "groups": _groups(model, shown_items, metas, counts),
        "of": len(model.items),
    }


def item_positions(scorer: Scorer, items: Positions) -> FloatArray:
    """Return two coordinates an item, about within [−1, 1]: those most alike stand together."""
    start = _between_metas(scorer.model.item_rows, meta_positions(scorer.model))[items]
    if len(items) < 3:
        return start
    points = _settle(_HALF_WIDTH * start.astype(np.float64), *_alike(scorer, items))
    return _fit(points, axis=0)  # the map shows neighbours, not distances


@lru_cache(maxsize=1)
def meta_positions(model: ServedModel) -> FloatArray | None:
    """Return the position of each meta-embedding on the map (c × 2), computed once per model; None without codes."""
    codes = model.item_rows.codes
    return None if codes is None else rounded(_layout(codes.codebook), "float16")


def _layout(points: FloatArray) -> FloatArray:
    """Return two coordinates a point, within [−1, 1]: near points stay near."""
    if len(points) < 5 or len(points) > _MAX_LAID_OUT:
        return _fit(_principal(points))
    # directions, not lengths, tell which meta-embeddings stand for the same taste; a sign is no difference in kind
    unit = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    distances = np.maximum(2 - 2 * np.abs(unit @ unit.T), 0).astype(np.float64)
    affinity = _affinities(distances, min(_TSNE_NEIGHBOURS, (len(points) - 1) / 3))
    return _fit(_descend(affinity, _principal(unit).astype(np.float64)))


def _between_metas(rows: EmbeddingTable, metas: FloatArray | None) -> FloatArray:
    """Return where every row lies: between its meta-embeddings, drawn to those that carry most of it."""
    codes = rows.codes
    if metas is None or codes is None:
        return _fit(_principal(rows.vectors(slice(None))))
    lengths = np.linalg.norm(codes.codebook, axis=1)
    pull = np.abs(codes.weights) * lengths[codes.columns]
    pull **= 4  # strongly to the first, so that those who share it stand together
    pull /= np.maximum(pull.sum(axis=1, keepdims=True), 1e-30)
    points = np.zeros((len(rows), 2), dtype=np.float32)
    for k in range(pull.shape[1]):
        points += pull[:, k : k + 1] * metas[codes.columns[:, k]]
    return points


def _strongest_metas(rows: EmbeddingTable) -> NDArray[np.int64]:
    """Return the meta-embedding that carries most of each row: its colour on the map."""
    codes = rows.codes
    if codes is None:
        return np.zeros(len(rows), dtype=np.int64)
    lengths = np.linalg.norm(codes.codebook, axis=1)
    strongest = (np.abs(codes.weights) * lengths[codes.columns]).argmax(axis=1)
    metas: NDArray[np.int64] = codes.columns[np.arange(len(rows)), strongest].astype(np.int64)
    return metas


def _principal(points: FloatArray) -> FloatArray:
    """Project on the two directions of largest variance, signs fixed so that the same points give the same picture."""
    centred = points - points.mean(axis=0)
    _, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    largest = axes[:, ::-1][:, :2]
    largest = largest * np.where(largest[np.abs(largest).argmax(axis=0), range(largest.shape[1])] < 0, -1, 1)
    flat = np.zeros((len(points), 2), dtype=np.float32)
    flat[:, : largest.shape[1]] = centred @ largest
    return flat


def _affinities(distances: _Points, neighbours: float) -> _Points:
    """Find each point's kernel width by bisection, so that it has about so many neighbours; then make it symmetric."""
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


def _descend(affinity: _Points, start: _Points) -> _Points:
    """Run t-SNE's gradient descent with momentum and early exaggeration."""
    rng = fixed_generator()
    points = 1e-2 * start / max(float(start.std()), 1e-12) + 1e-4 * rng.standard_normal(start.shape)
    speed, gains = np.zeros_like(points), np.ones_like(points)
    step = max(len(points) / 4.0, 50.0)
    for turn in range(_TSNE_ROUNDS):
        is_early = turn < _TSNE_ROUNDS // 4
        pull = affinity * (8.0 if is_early else 1.0)
        squares = (points**2).sum(axis=1)
        near = 1.0 / (1.0 + np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0))
        np.fill_diagonal(near, 0.0)
        force = (pull - near / max(float(near.sum()), 1e-300)) * near
        gradient = 4 * (force.sum(axis=1)[:, None] * points - force @ points)
        gains = np.clip(np.where(np.sign(gradient) != np.sign(speed), gains + 0.2, gains * 0.8), 0.01, 10)
        speed = (0.5 if is_early else 0.8) * speed - step * gains * gradient
        points = points + speed
        points -= points.mean(axis=0)
    return points


def _fit(points: NDArray[np.floating], axis: int | None = None) -> FloatArray:
    """Scale the points to about [−1, 1]; with axis 0 both directions to the same width."""
    if not points.size:
        return points.astype(np.float32)
    centred = points - points.mean(axis=0)
    reach = np.maximum(np.quantile(np.abs(centred), 0.995, axis=axis), 1e-12).astype(centred.dtype)
    fitted: FloatArray = np.clip(centred / reach, -1.2, 1.2).astype(np.float32)
    return fitted


def _alike(scorer: Scorer, items: Positions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of indices into `items`: each with the items most like it."""
    unit = scorer.model.item_rows.vectors(items) / scorer.item_norms[items, None]
    shrunk = unit * trust(scorer.model.popularity)[items, None]
    like = min(_ATTRACTING, len(items) - 1)
    nearest = np.empty((len(items), like), dtype=np.int64)
    for start in range(0, len(items), _BLOCK):
        cosines = unit[start : start + _BLOCK] @ shrunk.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -np.inf
        nearest[start : start + _BLOCK] = np.argpartition(-cosines, like - 1, axis=1)[:, :like]
    return np.repeat(np.arange(len(items)), like), nearest.ravel()


def _settle(points: _Points, ones: NDArray[np.int64], others: NDArray[np.int64]) -> _Points:
    """Move the points by both forces in `_ROUNDS` rounds, less and less."""
    rng = fixed_generator()  # the same model gives the same picture
    count = len(points)
    points = points + rng.normal(0, 0.05, points.shape)  # items of one code start on one point, and have to part
    pushed = np.repeat(ones, _REPELLING)
    heads, tails = np.concatenate([ones, others]), np.concatenate([others, ones])
    for turn in range(_ROUNDS):
        gaps = points[heads] - points[tails]
        pull = -2 / (1 + np.einsum("pj,pj->p", gaps, gaps))
        moves = _sum(heads, gaps * pull[:, None], count)
        gaps = points[pushed] - points[rng.integers(0, count, len(pushed))]
        squares = np.einsum("pj,pj->p", gaps, gaps)
        push = 2 / ((0.05 + squares) * (1 + squares))
        moves += _sum(pushed, np.clip(gaps * push[:, None], -4, 4), count)
        points += np.clip(0.1 * (1 - turn / _ROUNDS) * moves, -1, 1)
    return points


def _sum(rows: NDArray[np.int64], values: _Points, count: int) -> _Points:
    return np.column_stack([np.bincount(rows, values[:, k], count) for k in range(2)])


def _groups(model: ServedModel, items: Positions, metas: NDArray[np.int64], counts: FloatArray) -> list[Any]:
    """Return groups of items that lean on the same meta-embedding, the best known first."""
    if model.item_rows.codes is None:
        return []
    groups = []
    for meta in np.unique(metas).tolist():
        members = np.flatnonzero(metas == meta)
        if len(members) >= _MIN_GROUP:
            names = [model.item_name(item) for item in items[members[:2]].tolist()]
            known = float(counts[members].sum())
            groups.append({"meta": meta, "count": len(members), "examples": names, "known": known})
    groups.sort(key=lambda group: -float(str(group["known"])))
    return groups[:_MAX_GROUPS]
