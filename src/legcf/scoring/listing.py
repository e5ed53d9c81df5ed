# SPDX-License-Identifier: Apache-2.0
"""List the recommendations of users in columns, in the ids that people use. Numpy only."""

from collections.abc import Iterator, Sequence
from typing import Any

from legcf.core.arguments import as_count
from legcf.core.columns import FrameColumns
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, as_typed
from legcf.scoring.scorer import Request, Scored, Scorer

ListedColumns = dict[str, list[Any]]


def list_recommendations(
    scorer: Scorer,
    users: Sequence[ExternalId] | None,
    k: int,
    exclude_seen: bool | None = None,
    popular_for_strangers: bool = False,
) -> ListedColumns:
    """Return the columns user, rank, item, score, title (where titles are known) and fallback, a row per item.

    They are of these users, or of everyone that the model knows; strangers get popular items or are an error.
    """
    k = min(as_count(k, "The number of recommendations"), len(scorer.model.items))
    if users is None:
        return _columns(scorer, _of_everyone(scorer, k, exclude_seen))
    known = scorer.model.users
    if known is None:
        raise UserError("This model file stores no users, so it cannot tell them apart: export with --users history.")
    positions = [known.find(one) for one in users]
    if not popular_for_strangers:
        known.positions(one for one, position in zip(users, positions, strict=True) if position is None)
    names = [
        one if position is None else known.external([position])[0]
        for one, position in zip(users, positions, strict=True)
    ]
    requests = (
        Request(None if position is None else name, k=k, exclude_seen=exclude_seen)
        for name, position in zip(names, positions, strict=True)
    )
    lists = zip(as_typed(names, known.is_text), map(scorer.recommend, requests), strict=True)
    return _columns(scorer, lists)


def _of_everyone(scorer: Scorer, k: int, exclude_seen: bool | None) -> Iterator[tuple[ExternalId, list[Scored]]]:
    model = scorer.model
    for block, items, scores in scorer.recommend_blocks(k, exclude_seen):
        assert model.users is not None  # there are blocks of users
        # Strangers are scored by popularity: nobody else need be looked at again.
        may_be_popular = scores[:, 0] == model.popularity[items[:, 0]]
        for row, user in enumerate(model.users.external(range(block.start, block.stop))):
            kept = items[row] >= 0
            fallback = scorer.fallback(scorer.profile(Request(user))) if may_be_popular[row] else None
            ids = model.items.external(items[row][kept])
            names = [model.item_name(item) for item in items[row][kept].tolist()]
            values = scores[row][kept].tolist()
            yield user, [Scored(*one, fallback) for one in zip(ids, values, names, strict=True)]


def _columns(scorer: Scorer, lists: Iterator[tuple[ExternalId, list[Scored]]]) -> ListedColumns:
    names = [FrameColumns.USER, FrameColumns.RANK, FrameColumns.ITEM, FrameColumns.SCORE]
    titles = [FrameColumns.TITLE] if scorer.model.titles is not None else []
    columns: ListedColumns = {name: [] for name in (*names, *titles, FrameColumns.FALLBACK)}
    for user, best in lists:
        columns[FrameColumns.USER] += [user] * len(best)
        columns[FrameColumns.RANK] += range(1, len(best) + 1)
        columns[FrameColumns.ITEM] += [one.id for one in best]
        columns[FrameColumns.SCORE] += [one.score for one in best]
        columns[FrameColumns.FALLBACK] += [one.fallback for one in best]
        if titles:
            columns[FrameColumns.TITLE] += [one.name for one in best]
    return columns
