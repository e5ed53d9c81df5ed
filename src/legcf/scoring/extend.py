# SPDX-License-Identifier: Apache-2.0
"""Add items that nobody has yet to a model, by their features: no retraining. Numpy only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, integer_id
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable, EmbeddingTable, QuantisedTable
from legcf.ranking.tables.packing import quantise_table, row_scales


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
            raise _other_kind(model, item)
        return cls(identifier, encoded(model, features), title)


def with_new_items(model: ServedModel, items: Sequence[NewItem]) -> ServedModel:
    """Return the model with these items at the end, in the order of their ids.

    A field of the model that has a value for each item is lengthened here.
    """
    ordered = sorted(items, key=lambda one: str(one.id) if model.items.is_text else int(one.id))
    names = [str(one.id) if one.title is None else one.title for one in ordered]
    count, more = len(model.items) + len(ordered), len(ordered)
    bias, lists, history = model.item_bias, model.lists, model.history
    popularity = np.append(model.popularity, np.zeros(more, dtype=np.int64))
    return replace(
        model,
        items=model.items.with_later([one.id for one in ordered]),
        item_rows=_longer(model.item_rows, np.stack([one.vector for one in ordered])),
        popularity=popularity,
        # an unknown bias is taken to be the usual one
        item_bias=None if bias is None else np.append(bias, np.full(more, np.median(bias), dtype=np.float32)),
        titles=None if model.titles is None else [*model.titles, *names],
        attributes=None if model.attributes is None else model.attributes.longer(more),
        pooling=None if model.pooling is None else replace(model.pooling, counts=popularity),
        lists=None if lists is None else replace(lists, pairs=lists.pairs.widened(count, count)),
        history=None if history is None else PackedHistories.of(history.all().widened(len(history), count)),
    )


def encoded(model: ServedModel, features: Mapping[str, Any]) -> FloatArray:
    """Return the vector of an item with these features."""
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
    """Return the table with these vectors at the end, stored as the others are."""
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


def code_vector(vector: FloatArray, codebook: FloatArray, t: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Code a vector by orthogonal matching pursuit: t columns and weights with Σ weights · codebook[columns] ≈ vector.

    The plain form of `assignment.matching_pursuit`, which swaps columns as well and needs numba.
    """
    book = codebook.astype(np.float64)
    lengths = np.linalg.norm(book, axis=1)
    usable = lengths > 0
    residual = vector.astype(np.float64)
    columns: list[int] = []
    weights: NDArray[np.float64] = np.zeros(0)
    for _ in range(min(t, int(usable.sum()))):
        gain = np.where(usable, np.abs(book @ residual) / np.maximum(lengths, 1e-30), -1.0)
        gain[columns] = -1.0
        columns.append(int(gain.argmax()))
        weights = np.asarray(np.linalg.lstsq(book[columns].T, vector.astype(np.float64), rcond=None)[0], np.float64)
        residual = vector - weights @ book[columns]
    order = np.argsort(-np.abs(weights), kind="stable")
    padded, values = np.zeros(t, dtype=np.int64), np.zeros(t, dtype=np.float32)
    padded[: len(order)], values[: len(order)] = np.array(columns, dtype=np.int64)[order], weights[order]
    return padded, values
