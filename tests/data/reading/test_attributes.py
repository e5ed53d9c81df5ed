# SPDX-License-Identifier: Apache-2.0
"""Attributes of items from tables: kinds of columns, several values, what is missing."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.reading.attributes import TextValues, read_attributes

ITEMS = IdMap.of(["a", "b", "c", "d"], "item")


def _pairs(values: object) -> list[tuple[int, str]]:
    assert isinstance(values, TextValues)
    return sorted(zip(values.items.tolist(), values.values, strict=True))


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item,genres,price,stock,note\nb,Tea|Green,2.50,true,\na,Tea,,false,\nz,Cup,1,true,x\nc,,7,true,\n")
    found = read_attributes(path, ITEMS, ["genres", "price", "stock"])
    assert _pairs(found["genres"]) == [(0, "Tea"), (1, "Green"), (1, "Tea")]
    np.testing.assert_array_equal(found["price"], [np.nan, 2.5, 7.0, np.nan])  # type: ignore[arg-type]
    assert _pairs(found["stock"]) == [(0, "false"), (1, "true"), (2, "true")]
    with pytest.raises(UserError, match=r"'note' of .* has no value"):
        read_attributes(path, ITEMS)
    with pytest.raises(UserError, match="no column 'colour'"):
        read_attributes(path, ITEMS, ["colour"])


def test_parquet_has_types(tmp_path: Path) -> None:
    path = tmp_path / "items.parquet"
    frame = pl.DataFrame(
        {"product_id": ["a", "b"], "tags": [["x", "y"], []], "in_stock": [True, None], "year": [1999, None]}
    )
    frame.write_parquet(path)
    found = read_attributes(path, ITEMS)
    assert _pairs(found["tags"]) == [(0, "x"), (0, "y")]
    assert _pairs(found["in_stock"]) == [(0, "true")]
    np.testing.assert_array_equal(found["year"], [1999, np.nan, np.nan, np.nan])  # type: ignore[arg-type]


def test_numbers_as_ids_and_a_table_of_other_items(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("movieId,year\n7,1999\n9,2001\n")
    found = read_attributes(path, IdMap.of(np.array([9, 8, 7]), "item"))
    np.testing.assert_array_equal(found["year"], [2001, np.nan, 1999])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="none of the model's items"):
        read_attributes(path, ITEMS)
