"""A model with one more item, solved from the users who have it: no retraining. Numpy only."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from legcf.arrays import FloatArray, IntArray
from legcf.data.ids import ExternalId, IdMap
from legcf.data.interactions import Interactions
from legcf.errors import UserError
from legcf.ranking.rows import CodedRows, FullRows, Rows
from legcf.serving.artifact import ServingModel
from legcf.serving.foldin import FoldInSolver, code_vector
from legcf.serving.history import PackedHistories


def with_item(
    model: ServingModel, item: ExternalId, users: Sequence[ExternalId], title: str | None = None
) -> ServingModel:
    """The same model with `item` at the end, its vector solved from `users` as a user's is from its items."""
    if model.users is None or model.user_rows is None:
        raise UserError("A new item is solved from its users, and this model stores none: export with `--users coded`.")
    if model.items.find(item) is not None:
        raise UserError(f"The item {item!r} is already in the model.")
    if model.items.is_text != isinstance(item, str):
        raise UserError(
            f"The item id {item!r} is not of the kind of the model's ids, such as {model.items.values[0]!r}."
        )
    if not users:
        raise UserError(f"The item {item!r} has no users to be solved from: name at least one.")
    holders = np.unique(model.users.positions(users))
    counts = np.ones(len(model.user_rows), dtype=np.float32)
    vector = FoldInSolver(model.user_rows, counts, model.fold_in_item).vector(holders)
    bias = model.item_bias
    return replace(
        model,
        items=IdMap.of([*model.items.values.tolist(), item], "item"),
        item_rows=_longer(model.item_rows, vector),
        popularity=np.append(model.popularity, len(holders)),
        # an unknown bias is taken to be the usual one
        item_bias=None if bias is None else np.append(bias, np.float32(np.median(bias))),
        titles=None if model.titles is None else [*model.titles, title if title is not None else str(item)],
        attributes=None if model.attributes is None else model.attributes.longer(1),
        history=None if model.history is None else _with_pairs(model.history, holders, len(model.items)),
    )


def _longer(rows: Rows, vector: FloatArray) -> Rows:
    if isinstance(rows, CodedRows):
        columns, weights = code_vector(vector, rows.codebook, rows.columns.shape[1])
        longer = np.concatenate([rows.columns, columns[None].astype(rows.columns.dtype)])
        return CodedRows(longer, np.concatenate([rows.weights, weights[None]]), rows.codebook)
    assert isinstance(rows, FullRows)
    return FullRows(np.concatenate([rows.table, vector[None]]))


def _with_pairs(history: PackedHistories, users: IntArray, item: int) -> PackedHistories:
    """The new item has the highest number, so it belongs at the end of each of its users' sorted items."""
    known = history.all()
    items = np.insert(known.items, known.indptr[users + 1], item)
    added = np.zeros(len(known.indptr), dtype=np.int64)
    added[users + 1] = 1
    return PackedHistories.of(Interactions(known.indptr + np.cumsum(added), items, item + 1))
