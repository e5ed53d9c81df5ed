"""What a model knows and what is new, together: ids, pairs and titles.

Ids that were trained on keep their places; all others follow in sorted order, whenever they came. So several updates
end in the same places as one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from legcf.arrays import LongArray
from legcf.data.ids import ExternalId, IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.trained_model import TrainedModel


@dataclass(frozen=True, eq=False)
class Merged:
    users: IdMap
    items: IdMap
    titles: list[str] | None
    train: Interactions
    """What the model was trained on, and all that came since."""
    known: Interactions
    added: Interactions
    """Of `train`, the pairs that came since the training."""


def merge(base: TrainedModel, current: TrainedModel, new: Dataset) -> Merged:
    """The pairs of `current`, which was updated from `base` or is `base` itself, and every pair of `new`."""
    users = _grown(base.users, current.users, new.users)
    items = _grown(base.items, current.items, new.items)
    from_current = places(current.users, users), places(current.items, items)
    from_new = places(new.users, users), places(new.items, items)
    shape = len(users), len(items)
    fresh = moved(new.known, *from_new, *shape)
    train = moved(current.ranking.histories, *from_current, *shape).joined(fresh)
    known = moved(current.known, *from_current, *shape).joined(fresh)
    trained = widened(base.ranking.histories, *shape)
    added = train.subset(~np.isin(pair_keys(train), pair_keys(trained)))
    return Merged(users, items, _titles(items, current, new), train, known, added)


def grown_dataset(dataset: Dataset, trained: TrainedModel) -> Dataset:
    """The data of a model with what it was updated with: held-out pairs that have come since are held out no more."""
    train = trained.ranking.histories
    shape = len(trained.users), len(trained.items)
    taken = pair_keys(train)

    def rest(part: Interactions) -> Interactions:
        wide = widened(part, *shape)
        return wide.subset(~np.isin(pair_keys(wide), taken))

    return replace(
        dataset,
        users=trained.users,
        items=trained.items,
        titles=trained.titles,
        train=train,
        validation=rest(dataset.validation),
        test=rest(dataset.test),
    )


def places(ids: IdMap, among: IdMap) -> LongArray:
    """Where each id stands in a map that has them all."""
    found = (among.find(identifier) for identifier in ids.values.tolist())
    return np.fromiter((-1 if place is None else place for place in found), dtype=np.int64, count=len(ids))


def moved(pairs: Interactions, users: LongArray, items: LongArray, num_users: int, num_items: int) -> Interactions:
    """The same pairs in other places."""
    return Interactions.from_pairs(users[pairs.users()], items[pairs.items], num_users, num_items)


def widened(pairs: Interactions, num_users: int, num_items: int) -> Interactions:
    """The same pairs among more users and items, which follow at the end."""
    indptr = np.append(pairs.indptr, np.full(num_users - pairs.num_users, pairs.num_pairs, dtype=np.int64))
    return Interactions(indptr, pairs.items, num_items)


def pair_keys(pairs: Interactions) -> LongArray:
    """A number for each pair, ascending."""
    keys: LongArray = pairs.users().astype(np.int64) * pairs.num_items + pairs.items
    return keys


def _grown(trained: IdMap, current: IdMap, new: IdMap) -> IdMap:
    """Where the kinds of ids differ all become text, as when several files are read together."""
    later: list[ExternalId] = current.values[len(trained) :].tolist()
    later += [identifier for identifier in new.values.tolist() if current.find(identifier) is None]
    if not later:
        return trained
    known: Sequence[ExternalId] = trained.values.tolist()
    if trained.is_text or any(isinstance(one, str) for one in later):
        return IdMap.of([*map(str, known), *sorted(map(str, later))], trained.kind)
    return IdMap.of([*known, *sorted(later)], trained.kind)


def _titles(items: IdMap, current: TrainedModel, new: Dataset) -> list[str] | None:
    if current.titles is None:
        return None
    titles = [str(identifier) for identifier in items.values.tolist()]
    for ids, names in ((new.items, new.titles), (current.items, current.titles)):  # a title that is known stays
        for place, title in zip(places(ids, items).tolist(), names or (), strict=False):
            titles[place] = title
    return titles
