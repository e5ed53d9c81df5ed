# SPDX-License-Identifier: Apache-2.0
"""What every kind of table keeps to, whoever uses it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable, EmbeddingTable, QuantisedTable


@pytest.fixture(params=["coded", "packed", "full"])
def table(request: pytest.FixtureRequest, model: ServedModel) -> EmbeddingTable:
    vectors = model.item_rows.vectors(slice(None))
    kinds = (model.item_rows, QuantisedTable.of(vectors, 8), DenseTable(vectors))
    return next(table for table in kinds if table.kind == request.param)


def test_scores_are_products_of_its_vectors(table: EmbeddingTable) -> None:
    queries = np.random.default_rng(0).standard_normal((3, table.width)).astype(np.float32)
    scores = table.scores(table.project(queries))
    np.testing.assert_allclose(scores, queries @ table.vectors(slice(None)).T, rtol=1e-3, atol=1e-4)


def test_vectors_at_its_end_leave_the_others_as_they_are(table: EmbeddingTable) -> None:
    vectors = table.vectors(np.array([3, 5]))
    longer = table.appended(vectors)
    assert type(longer) is type(table)
    assert len(longer) == len(table) + 2
    np.testing.assert_allclose(longer.vectors(slice(0, len(table))), table.vectors(slice(None)), atol=1e-6)
    np.testing.assert_allclose(longer.vectors(slice(len(table), None)), vectors, atol=0.1 * np.abs(vectors).max())


def test_only_codes_have_a_codebook(table: EmbeddingTable) -> None:
    assert (table.codes is table) is isinstance(table, CodebookTable)
    assert set(table.facts) == {"coded": {"c", "t"}, "packed": {"bits"}, "full": set()}[table.kind]
    assert table.packed_bytes > 0


def test_it_goes_through_a_file(table: EmbeddingTable, model: ServedModel, tmp_path: Path) -> None:
    replace(model, item_rows=table, user_rows=None, dtype="float32").save(tmp_path / "model")
    again = ServedModel.load(tmp_path / "model").item_rows
    assert again.kind == table.kind
    np.testing.assert_allclose(again.vectors(slice(None)), table.vectors(slice(None)), rtol=0.02, atol=1e-6)
