# SPDX-License-Identifier: Apache-2.0
"""A served model with new pairs in it, from its file alone: no run, no training. Numpy only.

What users have and what is popular follows the pairs. New items are solved from the users who have them. Vectors and
lists of known items stay as they are: where much has changed, update the run (`legcf update`) and export it again.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from legcf.core.arrays import FloatArray, LongArray
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, IdMap
from legcf.data.interactions import Interactions
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import FoldIn, ServedModel
from legcf.ranking.tables.embedding_table import DenseTable
from legcf.scoring.extend import with_rows
from legcf.scoring.foldin import FoldInSolver

_COMPARED = 2000  # known items that tell how solved vectors lie beside those of the model
_RIDGE = 1e-2


def with_pairs(model: ServedModel, users: Sequence[ExternalId], items: Sequence[ExternalId]) -> ServedModel:
    """The model with these pairs, users and items side by side; pairs that it has already change nothing."""
    if model.pooling is None or model.users is None or model.history is None:
        raise UserError(
            "New pairs go into files that hold what users have, of models whose users are their histories: export with"
            " `--users history`, or update the run and export it again."
        )
    if len(users) != len(items):
        raise UserError(
            f"{len(users):,} users and {len(items):,} items are no pairs: give as many of one as of the other."
        )
    all_users, all_items = _with_new(model.users, users), _with_new(model.items, items)
    shape = len(all_users), len(all_items)
    before = model.history.all().widened(*shape)
    news = Interactions.from_pairs(all_users.positions(users), all_items.positions(items), *shape)
    after = before.joined(news)
    fresh = np.arange(len(model.items), shape[1])
    if len(fresh):
        model = with_rows(model, all_items.external(fresh), _solved(model, after, fresh), np.zeros_like(fresh).tolist())
    popularity = model.popularity + after.item_degrees - before.item_degrees
    return replace(
        model,
        users=all_users,
        popularity=popularity,
        history=PackedHistories.of(after),
        pooling=None if model.pooling is None else replace(model.pooling, counts=popularity),
    )


def _with_new(ids: IdMap, asked: Sequence[ExternalId]) -> IdMap:
    return ids.with_later(list({str(one): one for one in asked if ids.find(one) is None}.values()))


def _solved(model: ServedModel, histories: Interactions, fresh: LongArray) -> FloatArray:
    """Vectors of new items: a half step of ALS from their users, taken to where such steps for known items belong."""
    assert model.pooling is not None
    known = len(model.items)
    vectors = np.zeros((histories.num_items, model.item_rows.width), dtype=np.float32)
    vectors[:known] = model.item_rows.vectors(slice(None))
    counts = np.zeros(histories.num_items, dtype=np.int64)
    counts[:known] = model.popularity
    users = replace(model.pooling, counts=counts).vectors(histories, vectors.__getitem__, vectors.shape[1])
    solver = FoldInSolver(DenseTable(users), np.ones(len(users), dtype=np.float32), FoldIn(damping=0.0))
    by_item = histories.transposed()
    compared = np.linspace(0, known - 1, min(known, _COMPARED)).astype(np.int64)
    steps = solver.vectors(by_item.of_users(compared)).astype(np.float64)
    gram = steps.T @ steps
    ridge = (_RIDGE * np.trace(gram) / len(gram)) or 1.0
    across = np.linalg.solve(gram + ridge * np.eye(len(gram)), steps.T @ vectors[compared])
    solved: FloatArray = (solver.vectors(by_item.of_users(fresh)) @ across).astype(np.float32)
    return solved
