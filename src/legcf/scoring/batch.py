# SPDX-License-Identifier: Apache-2.0
"""Find the best items of all users of a file, some users at a time; compiled where numba is installed."""

import os
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.data.interactions import Interactions
from legcf.ranking.topk_numpy import TopK, empty_top_k
from legcf.scoring.foldin import UserProfile
from legcf.scoring.rules import Candidates
from legcf.scoring.settle import SPARE

if TYPE_CHECKING:
    from legcf.scoring.scorer import Scorer

_BLOCK = 512 * (os.cpu_count() or 1)  # users at once: eight times as many per core as the compiled search takes
_BLOCK_BYTES = 16 * 2**20  # of scores that stand in memory at once where they have to


def blocks(
    scorer: "Scorer", count: int, k: int, exclude_seen: bool, compiled: bool | None
) -> Iterator[tuple[slice, NDArray[np.int32], FloatArray]]:
    """Yield slices of the `count` users, and positions and scores of the k best items of each."""
    fast = find_spec("numba") is not None if compiled is None else compiled
    for start in range(0, count, _BLOCK):
        users = slice(start, min(start + _BLOCK, count))
        yield users, *_top_block(scorer, users, k, exclude_seen, fast)


def _top_block(scorer: "Scorer", users: slice, k: int, exclude_seen: bool, fast: bool) -> TopK:
    model = scorer.model
    nothing = Interactions.empty(users.stop - users.start, len(model.items))
    histories = nothing if model.history is None else model.history.some(users.start, users.stop)
    seen = histories if exclude_seen else nothing
    if model.dislikes is not None:
        seen = replace(nothing.joined(seen, model.dislikes.some(users.start, users.stop)), weights=None)
    vectors = _user_vectors(scorer, users, histories, fast)
    projected = model.item_rows.project(vectors)
    if fast:
        best = _top_compiled(scorer, projected, k + SPARE, histories, seen)
        unsettled = scorer.order.settle_all(best, k, vectors, histories)
        items, scores = best[0][:, :k], best[1][:, :k]
        # and those of whom nothing may be known
        left = np.union1d(unsettled, np.flatnonzero(~vectors.any(axis=1)))
    else:
        items, scores = empty_top_k(len(vectors), k)
        left = np.arange(len(vectors))
    for row in left.tolist():
        profile = UserProfile(vectors[row], histories.of(row), histories.relative_of(row))
        candidates = Candidates(scorer.scores(profile, projected[row : row + 1]), seen.of(row), None)
        best_items, best_scores = scorer.order.best(profile, candidates.best, k)
        items[row, : len(best_items)], scores[row, : len(best_items)] = best_items, best_scores
    return items, scores


def _user_vectors(scorer: "Scorer", users: slice, histories: Interactions, fast: bool) -> FloatArray:
    model, codes = scorer.model, scorer.model.item_rows.codes
    if model.user_rows is not None:
        return model.user_rows.vectors(users)
    if model.pooling is None:
        return scorer.solver.vectors(histories)
    if fast and codes is not None:
        from legcf.ranking.tables.pooling_numba import pooled_codes

        return pooled_codes(model.pooling, histories, codes)
    # one by one, as single requests have them: sums over many users at once round otherwise
    rows = range(histories.num_users)
    return np.stack([scorer.solver.vector(histories.of(row), histories.relative_of(row)) for row in rows])


def _top_compiled(scorer: "Scorer", projected: FloatArray, k: int, histories: Interactions, seen: Interactions) -> TopK:
    from legcf.ranking import topk_numba as compiled

    rows, bias, lists = scorer.model.item_rows, scorer.model.item_bias, scorer.model.lists
    if rows.codes is not None and compiled.reaches_few(lists, histories):
        return compiled.search_codes(rows.codes, projected, k, bias, seen, lists, histories)
    items, scores = empty_top_k(len(projected), k)
    few = max(1, _BLOCK_BYTES // (4 * max(len(scorer.model.items), 1)))
    for start in range(0, len(projected), few):
        some = np.arange(start, min(start + few, len(projected)))
        all_scores = rows.scores(projected[some])
        if bias is not None:
            all_scores += bias
        if lists is not None:
            lists.add_for(all_scores, histories.of_users(some))
        items[some], scores[some] = compiled.top_k(all_scores, k, seen.of_users(some))
    return items, scores
