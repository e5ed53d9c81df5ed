# SPDX-License-Identifier: Apache-2.0
"""The best items of all users of a file, some users at a time: compiled where numba is installed, else with numpy."""

import os
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.data.interactions import Interactions
from legcf.ranking.tables.embedding_table import CodebookTable
from legcf.scoring.profile import UserProfile
from legcf.scoring.topk import best

if TYPE_CHECKING:
    from legcf.scoring.scorer import Scorer

_BLOCK = 256 * (os.cpu_count() or 1)  # users at once: four times as many per core as the compiled search takes
_BLOCK_BYTES = 16 * 2**20  # of scores that stand in memory at once where they have to
_FEW_REACHED = 0.25  # of all items by the lists of a history; beyond, all scores are made

Found = tuple[NDArray[np.int32], FloatArray]


def blocks(
    scorer: "Scorer", count: int, k: int, exclude_seen: bool, compiled: bool | None
) -> Iterator[tuple[slice, NDArray[np.int32], FloatArray]]:
    """Slices of the `count` users, and positions and scores of the k best items of each."""
    fast = None if compiled is False else _compiled(bool(compiled))
    for start in range(0, count, _BLOCK):
        users = slice(start, min(start + _BLOCK, count))
        yield users, *_top_block(scorer, users, k, exclude_seen, fast)


def _top_block(scorer: "Scorer", users: slice, k: int, exclude_seen: bool, fast: ModuleType | None) -> Found:
    model = scorer.model
    nothing = Interactions.empty(users.stop - users.start, len(model.items))
    histories = nothing if model.history is None else model.history.some(users.start, users.stop)
    seen = histories if exclude_seen else nothing
    vectors = _user_vectors(scorer, users, histories, fast)
    projected = model.item_rows.project(vectors)
    if fast is None:
        items = np.full((len(vectors), k), -1, dtype=np.int32)
        scores = np.full((len(vectors), k), -np.inf, dtype=np.float32)
        left = np.arange(len(vectors))
    else:
        items, scores = _top_compiled(scorer, fast, projected, k, histories, seen)
        left = np.flatnonzero(~vectors.any(axis=1))  # those of whom nothing may be known
    for row in left.tolist():
        taste = UserProfile(vectors[row], histories.of(row), histories.relative_of(row))
        all_scores = scorer.scores(taste, projected[row : row + 1])
        chosen, values = best(all_scores, k, seen.of(row), None)
        items[row, : len(chosen)], scores[row, : len(chosen)] = chosen, values
    return items, scores


def _compiled(wanted: bool) -> ModuleType | None:
    """The compiled search: None without numba (an error if it is `wanted`)."""
    try:
        from legcf.scoring import batch_numba
    except ImportError:
        if wanted:
            raise
        return None
    return batch_numba


def _user_vectors(scorer: "Scorer", users: slice, histories: Interactions, fast: ModuleType | None) -> FloatArray:
    model = scorer.model
    if model.user_rows is not None:
        return model.user_rows.vectors(users)
    if model.pooling is None:
        return scorer.solver.vectors(histories)
    pooled: FloatArray
    if fast is not None and isinstance(model.item_rows, CodebookTable):
        pooled = fast.pooled_vectors(model.item_rows, model.pooling, histories)
    else:  # one by one, as single requests have them: sums over many users at once round otherwise
        rows = range(histories.num_users)
        pooled = np.stack([scorer.solver.vector(histories.of(row), histories.relative_of(row)) for row in rows])
    return pooled


def _top_compiled(
    scorer: "Scorer", fast: ModuleType, projected: FloatArray, k: int, histories: Interactions, seen: Interactions
) -> Found:
    rows, bias, lists = scorer.model.item_rows, scorer.model.item_bias, scorer.model.lists
    found: Found
    if isinstance(rows, CodebookTable) and lists is None:
        found = fast.top_k(rows, projected, k, bias, seen)
        return found
    if isinstance(rows, CodebookTable) and _lists_are_short(scorer, histories):
        found = fast.top_k_with_lists(rows, projected, k, bias, seen, lists, histories)
        return found
    parts: list[Found] = []
    few = max(1, _BLOCK_BYTES // (4 * max(len(scorer.model.items), 1)))
    for start in range(0, len(projected), few):
        some = np.arange(start, min(start + few, len(projected)))
        scores = rows.scores(projected[some])
        if bias is not None:
            scores += bias
        if lists is not None:
            lists.add_for(scores, histories.of_users(some))
        parts.append(fast.best_k(scores, k, seen.of_users(some)))
    return np.concatenate([items for items, _ in parts]), np.concatenate([scores for _, scores in parts])


def _lists_are_short(scorer: "Scorer", histories: Interactions) -> bool:
    """Whether the lists of a history reach few items, so that most are ranked by their codes alone."""
    lists = scorer.model.lists
    if lists is None or histories.weights is not None:  # the compiled search adds all lists alike
        return False
    reached = float(lists.lengths[histories.items].sum())
    return reached < _FEW_REACHED * histories.num_users * len(scorer.model.items)
