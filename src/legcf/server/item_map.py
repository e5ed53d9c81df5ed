# SPDX-License-Identifier: Apache-2.0
"""The map of items and its colours: items stand beside those that are most like them. Numpy only.

The start is the layout of the meta-embeddings (`legcf.server.map_layout`). There items of one code lie on one spot
and items that are alike by other meta-embeddings far apart. So the places are moved: every item is drawn to the
items most like it, as `/similar` finds them, and pushed away from others at random (the forces of UMAP).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, Positions
from legcf.core.random_streams import fixed_generator
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.popularity import at_least_one
from legcf.ranking.tables.embedding_table import CodebookTable
from legcf.scoring.scorer import Scorer
from legcf.server import map_layout

_LEAST_GROUP = 3
_MAP_POINTS = 4000  # the best-known items; more would neither be seen nor travel well
_LIKE = 10  # items that each is drawn to
_PUSHED = 4  # items that each is pushed from, for each that it is drawn to
_ROUNDS = 100
_SPREAD = 12.0  # half the width of the map while places move; the distance of neighbours is about 1
_SHRINK = 5.0  # as in `/similar`
_BLOCK = 512


def hues(model: ServedModel) -> list[int]:
    """A colour for each anchor: by its direction on the map, so that regions show, a little off its neighbours'."""
    spots = map_layout.spots(model)
    if spots is None:
        return [220]
    around = np.degrees(np.arctan2(spots[:, 1], spots[:, 0]))
    around += 25 * np.sin(2.4 * np.arange(len(around)))
    chosen: list[int] = (around % 360).astype(int).tolist()
    return chosen


def item_map(scorer: Scorer, by_popularity: Sequence[int]) -> dict[str, Any]:
    """Places, colours and names for the canvas, of the best-known items."""
    model = scorer.model
    shown = np.array(by_popularity[:_MAP_POINTS], dtype=np.int64)
    places = place(scorer, shown)
    colours = map_layout.anchors(model.item_rows)[shown]
    counts = at_least_one(model.popularity)[shown]
    return {
        "ids": model.items.external(shown),
        "titles": [model.item_name(item) for item in shown.tolist()],
        "x": np.round(places[:, 0], 4).astype(float).tolist(),
        "y": np.round(places[:, 1], 4).astype(float).tolist(),
        "meta": colours.tolist(),
        "size": np.round(np.log2(1 + counts), 2).astype(float).tolist(),
        "groups": _groups(model, shown, colours, counts),
        "of": len(model.items),
    }


def place(scorer: Scorer, shown: Positions) -> FloatArray:
    """Two coordinates an item, about within [−1, 1]: those most alike stand together."""
    start = map_layout.place(scorer.model.item_rows, map_layout.spots(scorer.model))[shown]
    if len(shown) < 3:
        return start
    return _fill(_settle(_SPREAD * start.astype(np.float64), *_alike(scorer, shown)))


def _alike(scorer: Scorer, shown: Positions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of places in `shown`: each item with the items most like it."""
    counts = at_least_one(scorer.model.popularity)[shown]
    unit = scorer.model.item_rows.vectors(shown) / scorer.item_norms[shown, None]
    known = unit * (counts / (counts + _SHRINK))[:, None]
    like = min(_LIKE, len(shown) - 1)
    nearest = np.empty((len(shown), like), dtype=np.int64)
    for start in range(0, len(shown), _BLOCK):
        cosines = unit[start : start + _BLOCK] @ known.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -np.inf
        nearest[start : start + _BLOCK] = np.argpartition(-cosines, like - 1, axis=1)[:, :like]
    return np.repeat(np.arange(len(shown)), like), nearest.ravel()


def _settle(places: NDArray[np.float64], ones: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
    rng = fixed_generator()  # the same model gives the same picture
    count = len(places)
    places = places + rng.normal(0, 0.05, places.shape)  # items of one code start on one spot, and have to part
    cold_users = np.repeat(ones, _PUSHED)
    heads, tails = np.concatenate([ones, others]), np.concatenate([others, ones])
    for turn in range(_ROUNDS):
        gaps = places[heads] - places[tails]
        pull = -2 / (1 + np.einsum("pj,pj->p", gaps, gaps))
        moves = _sum(heads, gaps * pull[:, None], count)
        gaps = places[cold_users] - places[rng.integers(0, count, len(cold_users))]
        squares = np.einsum("pj,pj->p", gaps, gaps)
        push = 2 / ((0.05 + squares) * (1 + squares))
        moves += _sum(cold_users, np.clip(gaps * push[:, None], -4, 4), count)
        places += np.clip(0.1 * (1 - turn / _ROUNDS) * moves, -1, 1)
    return places


def _fill(places: NDArray[np.float64]) -> FloatArray:
    """Both directions to the same width: places tell neighbours, not distances."""
    centred = places - places.mean(axis=0)
    reach = np.maximum(np.quantile(np.abs(centred), 0.995, axis=0), 1e-12)
    filled: FloatArray = np.clip(centred / reach, -1.2, 1.2).astype(np.float32)
    return filled


def _sum(rows: NDArray[np.int64], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.column_stack([np.bincount(rows, values[:, k], count) for k in range(2)])


def _groups(model: ServedModel, shown: Positions, colours: NDArray[np.int64], counts: FloatArray) -> list[Any]:
    """Items that lean on the same meta-embedding, the best-known groups first."""
    if not isinstance(model.item_rows, CodebookTable):
        return []
    groups = []
    for meta in np.unique(colours).tolist():
        members = np.flatnonzero(colours == meta)
        if len(members) >= _LEAST_GROUP:
            names = [model.item_name(item) for item in shown[members[:2]].tolist()]
            known = float(counts[members].sum())
            groups.append({"meta": meta, "count": len(members), "examples": names, "known": known})
    groups.sort(key=lambda group: -float(str(group["known"])))
    return groups[:40]
