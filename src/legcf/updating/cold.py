# SPDX-License-Identifier: Apache-2.0
"""Items that nobody has yet, or few: vectors from what is known of them, less and less as pairs come."""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, LongArray
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.data.reading.columns import find_column
from legcf.data.reading.kinds import to_text
from legcf.features.coder import Kind
from legcf.features.fitting import coded, fitted_coder
from legcf.features.known import ItemFeatures
from legcf.features.mapping import fit_map
from legcf.ranking.popularity import trust
from legcf.training.run_folder import TrainedModel
from legcf.updating.merge import Grown, moved
from legcf.updating.vectors import trained_vectors


@dataclass(frozen=True, eq=False)
class ItemTable:
    """What is said about items: their ids, a row for each, and of what kind columns are, where that is said."""

    items: IdMap
    rows: pl.DataFrame
    kinds: dict[str, Kind] | None = None

    @property
    def titles(self) -> list[str] | None:
        column = find_column(self.rows.columns, "title", None)
        if column is None:
            return None
        names = to_text(self.rows[column]).to_list()
        return [name or str(item) for name, item in zip(names, self.items.values.tolist(), strict=True)]


def with_items(trained: TrainedModel, new: Dataset | None, about: ItemTable | None) -> Dataset:
    """The new pairs, among all items that are spoken of."""
    if new is None:
        nobody = IdMap.of(np.empty(0, dtype=np.int64), "user")
        nothing = Interactions.empty(0, 0)
        new = Dataset("", "", nobody, IdMap.of(np.empty(0, dtype=np.int64), "item"), nothing, nothing, nothing)
    if about is None:
        return new
    own = [one for one in about.items.values.tolist() if new.items.find(one) is None]
    listed = [*new.items.values.tolist(), *own]
    kinds = {isinstance(one, str) for one in listed}
    items = IdMap.of([str(one) for one in listed] if len(kinds) > 1 else listed, "item")
    shape = np.arange(len(new.users)), np.arange(len(new.items)), len(new.users), len(items)
    train, validation, test = (moved(part, *shape) for part in (new.train, new.validation, new.test))
    titles = None
    if trained.titles is not None and (new.titles is not None or about.titles is not None):
        titles = [str(one) for one in listed]
        for ids, names in ((about.items, about.titles), (new.items, new.titles)):
            for place, name in zip(items.find_all(ids).tolist(), names or (), strict=False):
                titles[place] = name
    return replace(new, items=items, train=train, validation=validation, test=test, titles=titles)


def known_features(
    base: TrainedModel, current: TrainedModel, merged: Grown, about: ItemTable | None
) -> ItemFeatures | None:
    """All that is known of the items, and the map to vectors, learnt from the items that were trained on."""
    count = len(merged.items)
    before = current.features
    if before is not None:
        before = before.moved(merged.items.find_all(current.items), count)
    if about is None:
        return before
    coder = before.coder if before is not None else fitted_coder(about.rows, about.kinds)
    newer = ItemFeatures(coder, coded(coder, about.rows)).moved(merged.items.find_all(about.items), count)
    found = newer if before is None else before.overlaid(newer)
    vectors, pooling = trained_vectors(base)
    trained_on = found.rows[: len(base.items)]
    return replace(found, mapping=fit_map(trained_on, found.coder.widths, vectors, base.ranking.histories, pooling))


def described(base: TrainedModel, features: ItemFeatures | None, count: int) -> NDArray[np.bool_]:
    """Which items came after the training and are known by their features."""
    marked = np.zeros(count, dtype=np.bool_)
    if features is not None:
        marked[len(base.items) :] = np.diff(features.rows.indptr)[len(base.items) :] > 0
    return marked


def blended(
    vectors: FloatArray, which: LongArray, popularity: NDArray[np.integer], trained: int, features: ItemFeatures
) -> FloatArray:
    """The vectors of items that came after the training, drawn towards what their features say: n / (n + 5) of an item
    of n users is its own."""
    assert features.mapping is not None
    rows = features.rows[which]
    told = features.mapping.vectors(rows)
    own = trust(popularity[which]) * (popularity[which] > 0)
    own = np.where((which >= trained) & (np.diff(rows.indptr) > 0), own, 1).astype(np.float32)[:, None]
    mixed: FloatArray = own * vectors + (1 - own) * told
    return mixed
