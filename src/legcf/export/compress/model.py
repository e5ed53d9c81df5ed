# SPDX-License-Identifier: Apache-2.0
"""Turn a coded table into the model that `legcf serve` reads, and measure its accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from legcf.assignment.assignment import Assignment
from legcf.core.arrays import FloatArray, Matrix
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, IdMap
from legcf.data.interactions import Dataset
from legcf.data.reading.vector_table import VectorTable
from legcf.export.accuracy import Compared, compared
from legcf.export.calibrate import calibrated
from legcf.export.compress.compress import Compressed
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.precision import column_type
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.embedding_table import CodebookTable


@dataclass(frozen=True, eq=False)
class NamedTable:
    """Hold vectors with an id for each row, in the order of the interactions where there are any."""

    items: Matrix
    users: Matrix | None
    item_ids: IdMap
    user_ids: IdMap | None
    dataset: Dataset | None

    @property
    def ranking(self) -> Ranking | None:
        """Return what the vectors rank; None without users or interactions."""
        if self.dataset is None or self.users is None:
            return None
        return Ranking(np.asarray(self.users, np.float32), np.asarray(self.items, np.float32), self.dataset.train)


def name_rows(table: VectorTable, dataset: Dataset | None) -> NamedTable:
    """Give every row its id: from the table, else from the dataset (same order), else its number.

    With a table's ids and a dataset, rows are put into the dataset's order; rows the dataset does not know are left
    out, since nothing could be asked of them.
    """
    known_users, known_items = (None, None) if dataset is None else (dataset.users, dataset.items)
    users, user_ids = None, None
    if table.users is not None:
        users, user_ids = _named(table.users, table.user_ids, known_users, "user")
    items, item_ids = _named(table.items, table.item_ids, known_items, "item")
    return NamedTable(items, users, item_ids, user_ids, dataset)


def _named(matrix: Matrix, ids: Sequence[ExternalId] | None, data_ids: IdMap | None, kind: str) -> tuple[Matrix, IdMap]:
    if ids is not None and len(ids) != len(matrix):
        raise UserError(f"There are {len(ids):,} {kind} ids for {len(matrix):,} {kind} vectors: each row needs one.")
    if ids is not None and len(set(ids)) != len(ids):
        raise UserError(f"The {kind} ids repeat ({len(ids) - len(set(ids)):,} times): each row needs its own.")
    if data_ids is None:
        return matrix, IdMap.consecutive(len(matrix), kind) if ids is None else IdMap.of(list(ids), kind)
    if ids is None:
        if len(data_ids) != len(matrix):
            raise UserError(
                f"The table has {len(matrix):,} {kind} vectors and the data {len(data_ids):,} {kind}s: give the rows' "
                f"ids with --{kind}-ids, or the data that the table was trained on."
            )
        return matrix, data_ids
    rows = IdMap.of(list(ids), kind).find_all(data_ids)
    missing = int((rows < 0).sum())
    if missing:
        raise UserError(f"{missing:,} of the data's {len(data_ids):,} {kind}s have no vector among the --{kind}-ids.")
    return matrix[rows], data_ids


def compare(named: NamedTable, coded: Compressed) -> Compared:
    """Return metrics of the table and of the coded table, on validation and test."""
    before = named.ranking
    if named.dataset is None or before is None or coded.user_vectors is None:
        return {}
    return compared(named.dataset, before, Ranking(coded.user_vectors, coded.item_vectors, before.histories))


def to_serving(
    coded: Compressed, named: NamedTable, card: dict[str, Any], seed: int = 0, quiet: bool = True
) -> ServedModel:
    """Return a model that `legcf serve` and the scorer read; interactions, if any, add history and fold-in."""
    dataset, user_vectors = named.dataset, coded.user_vectors
    item_rows = _rows(coded.items, coded.codebook)
    model = ServedModel(
        items=named.item_ids,
        item_rows=item_rows,
        popularity=np.zeros(len(item_rows), dtype=np.int64) if dataset is None else dataset.train.item_degrees,
        users=named.user_ids,
        user_rows=None if coded.users is None else _rows(coded.users, coded.codebook),
        titles=None if dataset is None else dataset.titles,
        card=card,
        dtype=coded.dtype,
    )
    if dataset is None or user_vectors is None:
        return model
    model = replace(model, history=PackedHistories.of(dataset.known))
    served = Ranking(user_vectors, coded.item_vectors, dataset.train)
    return calibrated(model, served, dataset.validation, np.random.default_rng(seed), quiet)


def write_compressed(
    coded: Compressed, named: NamedTable, path: Path, origin: str, seed: int = 0, quiet: bool = True
) -> dict[str, Any]:
    """Write a coded table as the model file `path`; return its size, errors and accuracy before and after.

    `origin` says where the vectors came from; `seed` is that of the samples that choose how users are folded in.
    """
    accuracy = compare(named, coded)
    serving = {"d": coded.codebook.shape[1], "entities": coded.num_rows, "c": coded.sizes.c, "t": coded.sizes.t}
    card = {
        "name": path.stem if named.dataset is None else named.dataset.name,
        "method": "compressed table",
        "source": origin,
        "num_params": coded.num_values,
        "full_table_bytes": coded.num_values_before * 4,
        "serving": {**serving, "accuracy": accuracy},
        "relative_error": coded.relative_error,
        "seed": seed,
    }
    parts = to_serving(coded, named, card, seed, quiet).save(path)
    file = {"file": str(path), "table": origin, "bytes": path.stat().st_size, "parts": parts}
    return {
        **file,
        "full_table_bytes": coded.num_values_before * 4,
        "settings": {**serving, "dtype": coded.dtype, "seed": seed},
        "values": coded.num_values,
        "values_before": coded.num_values_before,
        "relative_error": coded.relative_error,
        "score_error": coded.score_error,
        "accuracy": accuracy,
    }


def _rows(assignment: Assignment, codebook: FloatArray) -> CodebookTable:
    return CodebookTable(assignment.indices.astype(column_type(len(codebook))), assignment.weights, codebook)
