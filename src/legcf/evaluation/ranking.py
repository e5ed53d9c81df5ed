"""Full ranking: every user against every item, in blocks, seen items left out, ties to the lower item number."""

import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray

from legcf.data.interactions import Interactions
from legcf.graph.neighbours import Neighbours

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]
_BLOCK_BYTES = 64 * 2**20  # scores held at a time: large enough for a fast product, small enough to stay near the cache


def rank(
    user_vectors: FloatArray,
    item_vectors: FloatArray,
    k: int,
    users: NDArray[np.integer] | None = None,
    seen: Interactions | None = None,
    neighbours: Neighbours | None = None,
) -> tuple[IntArray, FloatArray]:
    """The k best items of each user and their scores, best first; −1 and −inf where fewer exist.

    Scores are inner products, with the neighbours' share added where they are given.
    """
    chosen = np.arange(len(user_vectors)) if users is None else np.asarray(users)
    k = min(k, len(item_vectors))
    ranked = np.full((len(chosen), k), -1, dtype=np.int32)
    scores = np.full((len(chosen), k), -np.inf, dtype=np.float32)
    mask = seen if seen is not None else Interactions.empty(len(user_vectors), len(item_vectors))
    items_across = torch.from_numpy(np.ascontiguousarray(item_vectors, dtype=np.float32)).T
    rows = max(1, _BLOCK_BYTES // (4 * max(len(item_vectors), 1)))
    block_scores = torch.empty((min(rows, max(len(chosen), 1)), len(item_vectors)))
    for start in range(0, len(chosen), rows):
        block = chosen[start : start + rows]
        out = block_scores[: len(block)]
        torch.mm(torch.from_numpy(np.ascontiguousarray(user_vectors[block], dtype=np.float32)), items_across, out=out)
        if neighbours is not None:
            neighbours.add_to(out.numpy(), block)
        end = start + len(block)
        _select(out.numpy(), block, mask.indptr, mask.items, ranked[start:end], scores[start:end])
    return ranked, scores


@njit(cache=True, parallel=True)
def _select(scores, users, indptr, items, ranked, best):  # type: ignore[no-untyped-def]
    """Mask and take the k best of each row. Most scores fail one comparison with the worst that is kept."""
    num_items = scores.shape[1]
    k = ranked.shape[1]
    for row in prange(scores.shape[0]):
        line = scores[row]
        for place in range(indptr[users[row]], indptr[users[row] + 1]):
            line[items[place]] = -np.inf
        kept_items, kept = ranked[row], best[row]
        worst = np.float32(-np.inf)
        for item in range(num_items):
            score = line[item]
            if score > worst:
                slot = k - 1
                while slot > 0 and kept[slot - 1] < score:
                    kept[slot], kept_items[slot] = kept[slot - 1], kept_items[slot - 1]
                    slot -= 1
                kept[slot], kept_items[slot] = score, item
                worst = kept[k - 1]


@njit(cache=True, parallel=True)
def _find_hits(ranked, users, indptr, items, hits):  # type: ignore[no-untyped-def]
    for row in prange(ranked.shape[0]):
        truth = items[indptr[users[row]] : indptr[users[row] + 1]]
        for place in range(ranked.shape[1]):
            where = np.searchsorted(truth, ranked[row, place])
            hits[row, place] = where < len(truth) and truth[where] == ranked[row, place]


def find_hits(ranked: IntArray, users: NDArray[np.integer], truth: Interactions) -> NDArray[np.bool_]:
    """Which places of the ranked lists hold an item of the truth."""
    hits = np.zeros(ranked.shape, dtype=np.bool_)
    _find_hits(ranked, np.asarray(users), truth.indptr, truth.items, hits)
    return hits
