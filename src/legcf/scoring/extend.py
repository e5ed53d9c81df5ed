# SPDX-License-Identifier: Apache-2.0
"""A model with more items, by what is known of them or by the users who have them: no retraining. Numpy only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legcf.core.arrays import FloatArray, IntArray, Positions
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, integer_id
from legcf.data.interactions import Interactions
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.popularity import trust
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable, EmbeddingTable, QuantisedTable
from legcf.ranking.tables.packing import quantise_table, row_scales
from legcf.scoring.foldin import FoldInSolver, code_vector

_NOBODY = np.zeros(0, dtype=np.int32)


def with_item(
    model: ServedModel,
    item: ExternalId,
    users: Sequence[ExternalId] = (),
    title: str | None = None,
    features: Mapping[str, Any] | None = None,
) -> ServedModel:
    """The same model with `item` at the end.

    Its vector is solved from `users` as a user's is from its items; what is known of it, by the names of the columns
    that the model learnt from, places it where nobody has it yet, and counts less the more users it has.
    """
    if model.items.find(item) is not None:
        raise UserError(f"The item {item!r} is already in the model.")
    if model.items.is_text != isinstance(item, str):
        raise _other_kind(model, item)
    if not users and features is None:
        raise UserError(f"The item {item!r} has no users to be solved from: name at least one, or its features.")
    holders, vector = _solved(model, users) if users else (_NOBODY, np.zeros(model.item_rows.width, dtype=np.float32))
    if features is not None:
        own = trust(np.array([len(holders)]))[0] if len(holders) else np.float32(0)
        vector = own * vector + (1 - own) * placed(model, features)
    longer = with_rows(model, [item], vector[None], [len(holders)])
    return replace(
        longer,
        titles=longer.titles if longer.titles is None or title is None else [*longer.titles[:-1], title],
        history=None if model.history is None else _with_pairs(model.history, holders, len(model.items)),
    )


@dataclass(frozen=True, eq=False)
class NewItem:
    """That nobody has yet, where its features place it."""

    id: ExternalId
    vector: FloatArray
    title: str | None = None

    @classmethod
    def of(cls, model: ServedModel, item: str, features: Mapping[str, Any], title: str | None = None) -> "NewItem":
        """From an id as text, whatever ids are in the model."""
        identifier = item if model.items.is_text else integer_id(item)
        if identifier is None or not _fits(model, identifier):
            raise _other_kind(model, item)
        return cls(identifier, placed(model, features), title)


def with_new_items(model: ServedModel, items: Sequence[NewItem]) -> ServedModel:
    """The same model with all of them at the end, in the order of their ids."""
    ordered = sorted(items, key=lambda one: str(one.id) if model.items.is_text else int(one.id))
    vectors = np.stack([one.vector for one in ordered])
    longer = with_rows(model, [one.id for one in ordered], vectors, [0] * len(ordered))
    titles = longer.titles
    if titles is not None:
        titles = [*titles[: -len(ordered)], *(str(one.id) if one.title is None else one.title for one in ordered)]
    history = None if model.history is None else _with_pairs(model.history, _NOBODY, len(longer.items) - 1)
    return replace(longer, titles=titles, history=history)


def with_rows(
    model: ServedModel, items: Sequence[ExternalId], vectors: FloatArray, holders: Sequence[int]
) -> ServedModel:
    """The same model with further items at the end, each with so many users. Histories are left to the caller."""
    count = len(model.items) + len(items)
    bias, lists = model.item_bias, model.lists
    popularity = np.append(model.popularity, np.asarray(holders, dtype=np.int64))
    return replace(
        model,
        items=model.items.with_later(items),
        item_rows=_longer(model.item_rows, vectors),
        popularity=popularity,
        # an unknown bias is taken to be the usual one
        item_bias=None if bias is None else np.append(bias, np.full(len(items), np.median(bias), dtype=np.float32)),
        titles=None if model.titles is None else [*model.titles, *map(str, items)],
        attributes=None if model.attributes is None else model.attributes.longer(len(items)),
        pooling=None if model.pooling is None else replace(model.pooling, counts=popularity),
        lists=None if lists is None else replace(lists, pairs=lists.pairs.widened(count, count)),
    )


def _solved(model: ServedModel, users: Sequence[ExternalId]) -> tuple[IntArray, FloatArray]:
    """Who has the item, and the vector that follows."""
    if model.users is None or model.user_rows is None:
        raise UserError("A new item is solved from its users, and this model stores none: export with `--users coded`.")
    holders = np.unique(model.users.positions(users))
    counts = np.ones(len(model.user_rows), dtype=np.float32)
    return holders, FoldInSolver(model.user_rows, counts, model.fold_in_item).vector(holders)


def placed(model: ServedModel, features: Mapping[str, Any]) -> FloatArray:
    """The vector of an item of which this is said."""
    if model.encoder is None:
        raise UserError("This model has learnt nothing from features: train or update it with --item-features.")
    return model.encoder.vector(features)


def _fits(model: ServedModel, identifier: ExternalId) -> bool:
    """Return whether ids of the model's type hold this one: int64 holds none from 2⁶³ on, uint64 none below 0."""
    if isinstance(identifier, str):
        return model.items.is_text
    return identifier >= 0 if model.items.values.dtype == np.uint64 else identifier < 2**63


def _other_kind(model: ServedModel, item: ExternalId) -> UserError:
    return UserError(f"The item id {item!r} is not of the kind of the model's ids, such as {model.items.values[0]!r}.")


def _longer(rows: EmbeddingTable, vectors: FloatArray) -> EmbeddingTable:
    """The rows with more of their kind at the end."""
    if isinstance(rows, CodebookTable):
        coded = [code_vector(vector, rows.codebook, rows.columns.shape[1]) for vector in vectors]
        columns = np.array([columns for columns, _ in coded], dtype=rows.columns.dtype)
        weights = np.array([weights for _, weights in coded], dtype=np.float32)
        return CodebookTable(
            np.concatenate([rows.columns, columns]), np.concatenate([rows.weights, weights]), rows.codebook
        )
    if isinstance(rows, QuantisedTable):
        values, scale, top = quantise_table(vectors, rows.bits)
        scales = np.concatenate([rows.scales, row_scales(scale, top)])
        return QuantisedTable(np.concatenate([rows.values, values]), scales, rows.bits)
    assert isinstance(rows, DenseTable)
    return DenseTable(np.concatenate([rows.table, vectors]))


def _with_pairs(history: PackedHistories, users: Positions, item: int) -> PackedHistories:
    """The new item's pairs beside the others; where those have weights, they count as the others do on average."""
    shape = len(history), item + 1
    new = Interactions.from_pairs(users, np.full(len(users), item), *shape)
    return PackedHistories.of(history.all().widened(*shape).joined(new))
