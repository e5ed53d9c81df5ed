# SPDX-License-Identifier: Apache-2.0
"""Tables of few bits: how much they lose, what they take, and the same numbers from a file."""

import numpy as np
import pytest

from legcf.ranking.tables.embedding_table import QuantisedTable, packed_table_bytes
from legcf.ranking.tables.packing import pack_bits, quantise_levels


def table(rows: int = 400, width: int = 24) -> np.ndarray:
    """Rows of very different lengths, some columns much larger than others, and a row of zeros."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((rows, width)) * np.geomspace(1, 30, width) * rng.lognormal(0, 1, (rows, 1))
    drawn[7] = 0
    return drawn.astype(np.float32)


@pytest.mark.parametrize(("bits", "most"), [(2, 0.16), (4, 0.02), (8, 0.001)])
def test_products_survive_few_bits(bits: int, most: float) -> None:
    exact = table()
    packed = QuantisedTable.of(exact, bits)
    close = packed.vectors(slice(None))
    lost = np.square(close @ close.T - exact @ exact.T).sum() / np.square(exact @ exact.T).sum()
    assert lost < most


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 8])
def test_scores_are_products_with_all_rows(bits: int) -> None:
    packed = QuantisedTable.of(table(3000), bits)
    queries = np.random.default_rng(1).standard_normal((3, 24)).astype(np.float32)
    exact = queries.astype(np.float64) @ packed.vectors(slice(None)).T.astype(np.float64)
    scores = packed.scores(packed.project(queries))
    lengths = np.linalg.norm(packed.vectors(slice(None)), axis=1) * np.linalg.norm(queries, axis=1)[:, None]
    assert (np.abs(scores - exact) <= 1e-6 * lengths + 1e-12).all()
    chosen = np.array([5, 2999, 7])
    np.testing.assert_array_equal(packed.vectors(chosen), packed.vectors(slice(None))[chosen])


def test_bytes_are_those_of_the_file() -> None:
    packed = QuantisedTable.of(table(), 2)
    assert len(pack_bits(packed.values, 2)) + 400 == packed.packed_bytes == packed_table_bytes(400, 24, 2)


def test_levels() -> None:
    values = np.random.default_rng(0).exponential(1.0, 5000).astype(np.float32)
    codes, levels = quantise_levels(values, 4)
    assert len(levels) == 16
    assert np.abs(levels[codes] - values).mean() < 0.08
    again, same = quantise_levels(levels[codes], 4)
    np.testing.assert_array_equal(same[again], levels[codes])
