# SPDX-License-Identifier: Apache-2.0
"""Merge what a model knows with what is new: ids, pairs and titles.

Ids that were trained on keep their positions; all others follow in sorted order, whenever they came. So several updates
give the same positions as one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from legcf.core.columns import FrameColumns
from legcf.data.ids import ExternalId, IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.data.options import seconds_of
from legcf.training.run_folder import TrainedModel

Weighing = Callable[[Interactions], Interactions]


@dataclass(frozen=True, eq=False)
class Changes:
    """Hold what becomes of pairs that may be known, by ids: a row for each pair, None for nothing."""

    withdrawn: pl.DataFrame | None = None
    """Pairs that count no more, neither as taken nor as dislikes."""
    disliked: pl.DataFrame | None = None

    @property
    def is_empty(self) -> bool:
        return self.withdrawn is None or self.withdrawn.is_empty()


NO_CHANGES = Changes()


@dataclass(frozen=True, eq=False)
class MergedData:
    """Hold all that was known and all that is new."""

    users: IdMap
    items: IdMap
    titles: list[str] | None
    train: Interactions
    """What the model was trained on, and all that came since."""
    known: Interactions
    """Every pair of the data and of the updates, held-out ones too."""
    added: Interactions
    """The pairs of `train` that came since the training."""
    weighed_at: float | None = None
    """The time that older pairs are older than, where they count less."""
    dislikes: Interactions | None = None
    """What users do not want: no pair is here and in `train` or `known`."""


def merge(base: TrainedModel, current: TrainedModel, new: Dataset, changes: Changes = NO_CHANGES) -> MergedData:
    """Return the pairs of `current`, which was updated from `base` or is `base` itself, and every pair of `new`.

    What is withdrawn by `changes` is withdrawn before the new pairs come.
    """
    users = _grown(base.users, current.users, new.users)
    items = _grown(base.items, current.items, new.items)
    from_current = users.find_all(current.users), items.find_all(current.items)
    from_new = users.find_all(new.users), items.find_all(new.items)
    shape = len(users), len(items)
    at, older, newer = _faded(current, new)
    fresh = newer(new.known).renumbered(*from_new, *shape)
    withdrawn = _found(changes.withdrawn, users, items)
    before = None if current.ranking.dislikes is None else current.ranking.dislikes.renumbered(*from_current, *shape)
    if before is not None and withdrawn is not None:
        before = before.without(withdrawn)
    read = None if new.dislikes is None else new.dislikes.renumbered(*from_new, *shape)
    parts = [part for part in (before, read, _found(changes.disliked, users, items)) if part is not None]
    dislikes = parts[0].joined(*parts[1:]) if parts else None

    def grown(pairs: Interactions) -> Interactions:
        known = older(pairs).renumbered(*from_current, *shape)
        after = (known if withdrawn is None else known.without(withdrawn)).joined(fresh)
        return after if dislikes is None else after.without(dislikes)

    train, known = grown(current.ranking.histories), grown(current.known)
    added = train.without(base.ranking.histories.widened(*shape))
    titles = None
    if current.titles is not None:  # a title that is known stays
        titles = titles_of(items, (new.items, new.titles), (current.items, current.titles))
    return MergedData(users, items, titles, train, known, added, at, dislikes)


def _found(pairs: pl.DataFrame | None, users: IdMap, items: IdMap) -> Interactions | None:
    """Return pairs of ids as positions, but for those that are not known."""
    if pairs is None or pairs.is_empty():
        return None
    found = []
    for ids, name in ((users, FrameColumns.USER), (items, FrameColumns.ITEM)):
        distinct, which = np.unique(pairs[name].to_numpy(), return_inverse=True)
        found.append(ids.find_all(IdMap.of(distinct.tolist(), ids.kind))[which])
    inside = (found[0] >= 0) & (found[1] >= 0)
    return Interactions.from_pairs(found[0][inside], found[1][inside], len(users), len(items))


def grown_dataset(dataset: Dataset, trained: TrainedModel) -> Dataset:
    """Return the data of a model with its updates: held-out pairs that came since are no longer held out."""
    train = trained.ranking.histories

    def rest(part: Interactions) -> Interactions:
        wide = part.widened(len(trained.users), len(trained.items))
        return wide if dataset.repeats else wide.without(train)  # else what users have may be held out as well

    return replace(
        dataset,
        dislikes=trained.ranking.dislikes,
        users=trained.users,
        items=trained.items,
        titles=trained.titles,
        train=train,
        validation=rest(dataset.validation),
        test=rest(dataset.test),
    )


def _faded(current: TrainedModel, new: Dataset) -> tuple[float | None, Weighing, Weighing]:
    """Return the later of both times, and how pairs of the model and new ones weigh by then.

    A model that was trained without weights stays without.
    """
    if current.ranking.histories.weights is None:
        return None, _unchanged, lambda pairs: replace(pairs, weights=None)
    half_life = current.config.data.get("options", {}).get("half_life")
    before, after = current.metrics.get("weighed_at"), new.weighed_at
    if half_life is None or before is None or after is None:
        return before, _unchanged, _unchanged
    at = max(before, after)

    def by_then(since: float) -> Weighing:
        factor = np.float32(2.0 ** ((since - at) / seconds_of(half_life)))
        return lambda pairs: pairs if pairs.weights is None else replace(pairs, weights=pairs.weights * factor)

    return at, by_then(before), by_then(after)


def _unchanged(pairs: Interactions) -> Interactions:
    return pairs


def _grown(trained: IdMap, current: IdMap, new: IdMap) -> IdMap:
    later: list[ExternalId] = current.values[len(trained) :].tolist()
    return trained.with_later([*later, *(one for one in new.values.tolist() if current.find(one) is None)])


def titles_of(items: IdMap, *sources: tuple[IdMap, Sequence[str] | None]) -> list[str]:
    """Return what the last of the sources that knows it calls an item; its id if none does."""
    titles = [str(one) for one in items.values.tolist()]
    for ids, names in sources:
        for position, title in zip(items.find_all(ids).tolist(), names or (), strict=False):
            titles[position] = title
    return titles
