# SPDX-License-Identifier: Apache-2.0
"""Give items that nobody has yet, or few, vectors from their features; the more users they have, the less of it."""

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
from legcf.features.entity_features import EntityFeatures
from legcf.features.fitting import coded, fitted_coder
from legcf.features.mapping import fit_map
from legcf.ranking.popularity import trust
from legcf.training.run_folder import TrainedModel
from legcf.updating.merge import MergedData, titles_of
from legcf.updating.vectors import trained_vectors


@dataclass(frozen=True, eq=False)
class ItemTable:
    """Hold features of items: a row for each id, and the kinds of columns that are fixed."""

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
    """Return the new pairs, among all items that are in them or in the table."""
    if new is None:
        nobody = IdMap.of(np.empty(0, dtype=np.int64), "user")
        nothing = Interactions.empty(0, 0)
        new = Dataset("", "", nobody, IdMap.of(np.empty(0, dtype=np.int64), "item"), nothing, nothing, nothing)
    if about is None:
        return new
    only_described = [one for one in about.items.values.tolist() if new.items.find(one) is None]
    listed = [*new.items.values.tolist(), *only_described]
    kinds = {isinstance(one, str) for one in listed}
    items = IdMap.of([str(one) for one in listed] if len(kinds) > 1 else listed, "item")
    shape = np.arange(len(new.users)), np.arange(len(new.items)), len(new.users), len(items)
    train, validation, test = (part.renumbered(*shape) for part in (new.train, new.validation, new.test))
    titles = None
    if trained.titles is not None and (new.titles is not None or about.titles is not None):
        titles = titles_of(items, (about.items, about.titles), (new.items, new.titles))
    return replace(new, items=items, train=train, validation=validation, test=test, titles=titles)


def known_features(
    base: TrainedModel, current: TrainedModel, merged: MergedData, about: ItemTable | None
) -> EntityFeatures | None:
    """Return all features of the items, and the map to vectors, learnt from the items that were trained on."""
    count = len(merged.items)
    before = current.features
    if before is not None:
        before = before.renumbered(merged.items.find_all(current.items), count)
    if about is None:
        return before
    coder = before.coder if before is not None else fitted_coder(about.rows, about.kinds)
    newer = EntityFeatures(coder, coded(coder, about.rows)).renumbered(merged.items.find_all(about.items), count)
    features = newer if before is None else before.overlaid(newer)
    vectors, pooling = trained_vectors(base)
    trained_on = features.rows[: len(base.items)]
    mapping = fit_map(trained_on, features.coder.widths, vectors, base.ranking.histories, pooling)
    return replace(features, mapping=mapping)


def described(base: TrainedModel, features: EntityFeatures | None, count: int) -> NDArray[np.bool_]:
    """Mark the items that came after the training and have features."""
    marked = np.zeros(count, dtype=np.bool_)
    if features is not None:
        marked[len(base.items) :] = np.diff(features.rows.indptr)[len(base.items) :] > 0
    return marked


def blended(
    vectors: FloatArray, which: LongArray, popularity: NDArray[np.integer], trained: int, features: EntityFeatures
) -> FloatArray:
    """Blend the vectors of items that came after the training with those that their features give.

    An item of n users keeps n / (n + 5) of its vector (`ranking.popularity.trust`).
    """
    assert features.mapping is not None
    rows = features.rows[which]
    by_features = features.mapping.vectors(rows)
    share = trust(popularity[which]) * (popularity[which] > 0)
    share = np.where((which >= trained) & (np.diff(rows.indptr) > 0), share, 1).astype(np.float32)[:, None]
    return share * vectors + (1 - share) * by_features
