# SPDX-License-Identifier: Apache-2.0
"""Full ranking: every user against every item, in blocks, seen items left out, ties to the lower item number."""

from collections.abc import Callable

import numpy as np
import torch

from legcf.core.arrays import FloatArray, IntArray, Positions
from legcf.core.jit import njit, prange
from legcf.data.interactions import Interactions
from legcf.ranking.popularity import trust
from legcf.ranking.ranking import Ranking

_BLOCK_BYTES = 64 * 2**20  # scores held at a time: large enough for a fast product, small enough to stay near the cache


def rank(
    ranking: Ranking, k: int, users: Positions | None = None, seen: Interactions | None = None
) -> tuple[IntArray, FloatArray]:
    """The k best items of each user (all by default) and their scores, best first; −1 and −inf where fewer exist.

    `seen` are pairs of all users that are left out.
    """
    chosen = np.arange(ranking.num_users) if users is None else np.asarray(users)
    hidden = Interactions.empty(len(chosen), ranking.num_items) if seen is None else seen.of_users(chosen)

    def complete(scores: FloatArray, rows: slice) -> None:
        ranking.add_bias_and_history(scores, chosen[rows])

    return _best(ranking.users, chosen, ranking.items, k, hidden, complete)


def similar(ranking: Ranking, items: Positions, k: int) -> tuple[IntArray, FloatArray]:
    """The k items most like each of some items, and how alike they are: cosines of vectors, bias apart, shrunk where
    only few users decide (`popularity.trust`)."""
    unit = ranking.items / np.maximum(np.linalg.norm(ranking.items, axis=1, keepdims=True), np.float32(1e-12))
    own = Interactions(np.arange(len(items) + 1, dtype=np.int64), items.astype(np.int32), ranking.num_items)
    trusted = trust(ranking.popularity)

    def complete(scores: FloatArray, rows: slice) -> None:
        scores *= trusted

    return _best(unit, items, unit, k, own, complete)


def _best(
    vectors: FloatArray,
    chosen: Positions,
    against: FloatArray,
    k: int,
    hidden: Interactions,
    complete: Callable[[FloatArray, slice], None],
) -> tuple[IntArray, FloatArray]:
    """Top k of the chosen vectors' inner products, completed block by block; row r leaves out what `hidden` has."""
    k = min(k, len(against))
    ranked = np.full((len(chosen), k), -1, dtype=np.int32)
    scores = np.full((len(chosen), k), -np.inf, dtype=np.float32)
    across = _tensor(against).T
    rows = max(1, _BLOCK_BYTES // (4 * max(len(against), 1)))
    room = torch.empty((min(rows, max(len(chosen), 1)), len(against)))
    for start in range(0, len(chosen), rows):
        block = slice(start, min(start + rows, len(chosen)))
        out = room[: block.stop - start]
        torch.mm(_tensor(vectors[chosen[block]]), across, out=out)
        complete(out.numpy(), block)
        _select(out.numpy(), start, hidden.indptr, hidden.items, ranked[block], scores[block])
    return ranked, scores


def _tensor(array: FloatArray) -> torch.Tensor:
    """Torch wants arrays it could write to, which those of a file are not."""
    return torch.from_numpy(np.require(array, np.float32, ["C", "W"]))


@njit(cache=True, parallel=True)
def _select(scores, first, indptr, items, ranked, best):  # type: ignore[no-untyped-def]
    """Mask and take the k best of each row. Most scores fail one comparison with the worst that is kept."""
    num_items = scores.shape[1]
    k = ranked.shape[1]
    for row in prange(scores.shape[0]):
        line = scores[row]
        for place in range(indptr[first + row], indptr[first + row + 1]):
            line[items[place]] = -np.inf
        kept_items, kept = ranked[row], best[row]
        worst = np.float32(-np.inf if k else np.inf)
        for item in range(num_items):
            score = line[item]
            if score > worst:
                slot = k - 1
                while slot > 0 and kept[slot - 1] < score:
                    kept[slot], kept_items[slot] = kept[slot - 1], kept_items[slot - 1]
                    slot -= 1
                kept[slot], kept_items[slot] = score, item
                worst = kept[k - 1]
