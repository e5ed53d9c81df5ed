# SPDX-License-Identifier: Apache-2.0
"""From a coded table to the model file that `legcf serve` reads, and what is known of its accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from legcf.assignment.assignment import Assignment
from legcf.core.arrays import FloatArray, Matrix
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, IdMap
from legcf.data.interactions import Dataset, Interactions
from legcf.data.reading.vector_table import VectorTable
from legcf.evaluation import evaluate
from legcf.export.calibrate import calibrate_items, calibrate_users
from legcf.export.compress.compress import Compressed
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import FoldIn, ServedModel
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.embedding_table import CodebookTable

_METRICS = ("recall@20", "ndcg@20")

Accuracy = dict[str, dict[str, float]]


@dataclass(frozen=True, eq=False)
class NamedTable:
    """Vectors with an id for each row, in the order of the interactions where there are any."""

    items: Matrix
    users: Matrix | None
    item_ids: IdMap
    user_ids: IdMap | None
    dataset: Dataset | None


def name_rows(table: VectorTable, dataset: Dataset | None) -> NamedTable:
    """Give every row its id: from the table, else from the dataset (same order), else its number.

    With a table's ids and a dataset, rows are put into the dataset's order; rows the dataset does not know are left
    out, since nothing could be asked of them.
    """
    sides: list[tuple[Matrix | None, IdMap | None]] = []
    for matrix, ids, known, kind in (
        (table.users, table.user_ids, None if dataset is None else dataset.users, "user"),
        (table.items, table.item_ids, None if dataset is None else dataset.items, "item"),
    ):
        sides.append((None, None) if matrix is None else _named(matrix, ids, known, kind))
    (users, user_ids), (items, item_ids) = sides
    assert items is not None
    assert item_ids is not None
    return NamedTable(items, users, item_ids, user_ids, dataset)


def _named(matrix: Matrix, ids: Sequence[ExternalId] | None, known: IdMap | None, kind: str) -> tuple[Matrix, IdMap]:
    if ids is not None and len(ids) != len(matrix):
        raise UserError(f"There are {len(ids):,} {kind} ids for {len(matrix):,} {kind} vectors: each row needs one.")
    if ids is not None and len(set(ids)) != len(ids):
        raise UserError(f"The {kind} ids repeat ({len(ids) - len(set(ids)):,} times): each row needs its own.")
    if known is None:
        return matrix, IdMap.consecutive(len(matrix), kind) if ids is None else IdMap.of(list(ids), kind)
    if ids is None:
        if len(known) != len(matrix):
            raise UserError(
                f"The table has {len(matrix):,} {kind} vectors and the data {len(known):,} {kind}s: give the rows' ids "
                f"with --{kind}-ids, or the data that the table was trained on."
            )
        return matrix, known
    given = IdMap.of(list(ids), kind)
    places = [given.find(identifier) for identifier in known.values.tolist()]
    missing = sum(place is None for place in places)
    if missing:
        raise UserError(f"{missing:,} of the data's {len(known):,} {kind}s have no vector among the --{kind}-ids.")
    return matrix[np.array(places, dtype=np.int64)], known


def accuracy(users: FloatArray, items: FloatArray, dataset: Dataset, part: str) -> dict[str, float]:
    truth: Interactions = dataset.validation if part == "validation" else dataset.test
    found = evaluate(Ranking(users, items, dataset.train), truth, (20,), metrics=("recall", "ndcg"))
    return {name: found[name] for name in _METRICS}


def compare(named: NamedTable, coded: Compressed) -> dict[str, dict[str, dict[str, float]]]:
    """Metrics of the table and of the coded table, on validation and test."""
    if named.dataset is None or named.users is None or coded.user_vectors is None:
        return {}
    before = (np.asarray(named.users, dtype=np.float32), np.asarray(named.items, dtype=np.float32))
    after = (coded.user_vectors, coded.item_vectors)
    measured: dict[str, dict[str, dict[str, float]]] = {}
    for part in ("validation", "test"):
        if (named.dataset.validation if part == "validation" else named.dataset.test).num_pairs:
            pair = [accuracy(*vectors, named.dataset, part) for vectors in (before, after)]
            measured[part] = {name: {"before": pair[0][name], "after": pair[1][name]} for name in _METRICS}
    return measured


def to_serving(
    coded: Compressed, named: NamedTable, card: dict[str, Any], seed: int = 0, quiet: bool = True
) -> ServedModel:
    """A model that `legcf serve` and the scorer read; interactions, where given, add history and fold-in."""
    item_rows = _rows(coded.items, coded.codebook)
    user_rows = None if coded.users is None else _rows(coded.users, coded.codebook)
    train = None if named.dataset is None else named.dataset.train
    counts = np.zeros(len(item_rows), dtype=np.int64) if train is None else train.item_degrees
    fold_in, fold_in_item, history = FoldIn(), FoldIn(damping=0.0), None
    if train is not None and named.dataset is not None and user_rows is not None and coded.user_vectors is not None:
        rng = np.random.default_rng(seed)
        served = Ranking(coded.user_vectors, coded.item_vectors, train)
        fold_in = calibrate_users(item_rows, served, named.dataset.validation, rng, quiet)
        fold_in_item = calibrate_items(user_rows, served, rng)
        history = PackedHistories.of(named.dataset.known)
    return ServedModel(
        items=named.item_ids,
        item_rows=item_rows,
        popularity=counts,
        users=named.user_ids,
        user_rows=user_rows,
        titles=None if named.dataset is None else named.dataset.titles,
        history=history,
        fold_in=fold_in,
        fold_in_item=fold_in_item,
        card=card,
        dtype=coded.dtype,
    )


def _rows(assignment: Assignment, codebook: FloatArray) -> CodebookTable:
    narrow = np.uint16 if len(codebook) <= 2**16 else np.uint32
    return CodebookTable(assignment.indices.astype(narrow), assignment.weights, codebook)
