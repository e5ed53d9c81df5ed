# SPDX-License-Identifier: Apache-2.0
"""Answer for many users at once from a ranking in memory, and lay answers out as polars frames."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, IntArray
from legcf.core.columns import FrameColumns
from legcf.data.ids import ExternalId, IdMap, integer_id
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank
from legcf.ranking.topk_numpy import empty_top_k


@dataclass(frozen=True, eq=False)
class Answers:
    """Hold a row of ranked positions and scores for each who is asked for; −1 where there are fewer."""

    ranked: IntArray
    scores: FloatArray
    popular: NDArray[np.bool_] | None = None
    """Whose rows are what most people have, since nothing is known of them."""


def best_items(ranking: Ranking, users: Sequence[int | None], k: int, exclude_seen: bool | None = None) -> Answers:
    """Return the k best items of each user, and the most popular ones for None.

    Whether what they have is left out is as the ranking was tested, unless `exclude_seen` says so.
    """
    hidden = ranking.hidden if exclude_seen is None else ranking.left_out(exclude_seen)
    known = np.array([user is not None for user in users], dtype=np.bool_)
    positions = np.array([user for user in users if user is not None], dtype=np.int32)
    ranked, scores = empty_top_k(len(users), k)
    ranked[known], scores[known] = rank(ranking, k, positions, hidden)
    ranked[~known], scores[~known] = ranking.most_popular(k)
    popular = ~known
    popular[known] = ranking.cold_users(positions)
    return Answers(ranked, scores, popular)


def most_similar(vectors: FloatArray, positions: NDArray[np.integer], k: int) -> Answers:
    """Return the k rows most like each of some rows, by the cosines of their vectors."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    ranked, scores = empty_top_k(len(positions), min(k, len(vectors)))
    for row, position in enumerate(positions.tolist()):
        cosines = unit @ unit[position]
        cosines[position] = -np.inf
        order = np.argsort(-cosines, kind="stable")[: ranked.shape[1]]
        order = order[order != position]
        ranked[row, : len(order)], scores[row, : len(order)] = order, cosines[order]
    return Answers(ranked, scores)


def answer_frame(
    asked: pl.Series, answers: Answers, ids: IdMap, titles: Sequence[str] | None = None, named: str = FrameColumns.ITEM
) -> pl.DataFrame:
    """Lay answers out as a frame, a row for each: after a column of what was `asked`, ids under the name `named`."""
    real = answers.ranked >= 0
    positions, counts = answers.ranked[real], real.sum(axis=1)
    columns = {
        asked.name: asked.gather(np.repeat(np.arange(len(asked)), counts)),
        FrameColumns.RANK: (np.cumsum(real, axis=1)[real]).astype(np.int32),
        named: ids.external(positions),
        FrameColumns.SCORE: answers.scores[real],
    }
    if titles is not None:
        columns[FrameColumns.TITLE] = [titles[position] for position in positions.tolist()]
    frame = pl.DataFrame(columns)
    if answers.popular is None:
        return frame
    marks = ["popular" if popular else None for popular in np.repeat(answers.popular, counts).tolist()]
    return frame.with_columns(pl.Series(FrameColumns.FALLBACK, marks, dtype=pl.String))


def id_column(name: str, asked: Sequence[ExternalId | None], is_text: bool) -> pl.Series:
    """Return ids as a column: of numbers if the model's are and strangers bring nothing else, of text otherwise.

    None is somebody without an id.
    """
    ids = [None if one is None else str(one) for one in asked]
    numbers = [None if one is None else integer_id(one) for one in ids]
    if is_text or [one is None for one in numbers] != [one is None for one in ids]:
        return pl.Series(name, ids, dtype=pl.String)
    return pl.Series(name, numbers, dtype=None if any(one is not None for one in numbers) else pl.Int64)
