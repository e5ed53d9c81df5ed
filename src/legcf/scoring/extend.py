# SPDX-License-Identifier: Apache-2.0
"""Make vectors of features: of items that nobody has yet, to add them to a model, and of users. Numpy only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, integer_id
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import ServedModel
from legcf.scoring.foldin import UserProfile


@dataclass(frozen=True, eq=False)
class NewItem:
    """Hold an item that nobody has yet, with the vector that its features give it."""

    id: ExternalId
    vector: FloatArray
    title: str | None = None

    @classmethod
    def of(cls, model: ServedModel, item: str, features: Mapping[str, Any], title: str | None = None) -> "NewItem":
        """Make one from an id as text, whatever ids are in the model."""
        identifier = item if model.items.is_text else integer_id(item)
        if identifier is None or not _fits(model, identifier):
            (known,) = model.items.external([0])
            raise UserError(f"The item id {item!r} is not of the kind of the model's ids, such as {known!r}.")
        return cls(identifier, encoded(model, features), title)


def with_new_items(model: ServedModel, items: Sequence[NewItem]) -> ServedModel:
    """Return the model with these items at the end, in the order of their ids.

    A field of the model that has a value for each item is lengthened here.
    """
    ordered = sorted(items, key=lambda one: str(one.id) if model.items.is_text else int(one.id))
    names = [str(one.id) if one.title is None else one.title for one in ordered]
    count, more = len(model.items) + len(ordered), len(ordered)
    bias, lists, history, dislikes = model.item_bias, model.lists, model.history, model.dislikes
    popularity = np.append(model.popularity, np.zeros(more, dtype=np.int64))
    return replace(
        model,
        items=model.items.with_later([one.id for one in ordered]),
        item_rows=model.item_rows.appended(np.stack([one.vector for one in ordered])),
        popularity=popularity,
        # an unknown bias is taken to be the usual one
        item_bias=None if bias is None else np.append(bias, np.full(more, np.median(bias), dtype=np.float32)),
        titles=None if model.titles is None else [*model.titles, *names],
        attributes=None if model.attributes is None else model.attributes.longer(more),
        pooling=None if model.pooling is None else replace(model.pooling, counts=popularity),
        lists=None if lists is None else replace(lists, pairs=lists.pairs.widened(count, count)),
        history=None if history is None else PackedHistories.of(history.all().widened(len(history), count)),
        dislikes=None if dislikes is None else PackedHistories.of(dislikes.all().widened(len(dislikes), count)),
    )


def encoded(model: ServedModel, features: Mapping[str, Any]) -> FloatArray:
    """Return the vector of an item with these features."""
    if model.encoder is None:
        raise UserError("This model has learnt nothing from features: train or update it with --item-features.")
    vector = model.encoder.vector(features)
    if vector is None:
        raise UserError("Nothing is said of the item that the model could place it by: give it a feature.")
    return vector


def started(model: ServedModel, profile: UserProfile, features: Mapping[str, Any]) -> UserProfile:
    """Return the profile with the vector of these features, if there is nothing else to make one of.

    Where they say nothing it stays zero, so that popularity decides.
    """
    if model.user_encoder is None:
        raise UserError("This model has learnt nothing from features of users: train it with --user-features.")
    vector = model.user_encoder.vector(features)
    if vector is None or len(profile.history) or profile.vector.any():
        return profile
    return replace(profile, vector=vector)


def _fits(model: ServedModel, identifier: ExternalId) -> bool:
    """Return whether ids of the model's type hold this one: int64 holds none from 2⁶³ on, uint64 none below 0."""
    if isinstance(identifier, str):
        return model.items.is_text
    return identifier >= 0 if model.items.values.dtype == np.uint64 else identifier < 2**63
