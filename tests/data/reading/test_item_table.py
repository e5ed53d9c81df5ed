# SPDX-License-Identifier: Apache-2.0
"""Tables of items: titles, attributes and features from every format; kinds of columns, what is missing."""

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.options import DataOptions
from legcf.data.reading.formats import FORMATS
from legcf.data.reading.item_table import TextValues, read_attributes, read_features, read_titles

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


def test_tables_from_files(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item_id,genre\n3,a\n1,b\n3,c\n")
    ids, rows = read_features(path)
    assert ids.values.tolist() == [3, 1]
    assert rows["genre"].to_list() == ["a", "b"]
    pl.read_csv(path).write_parquet(tmp_path / "items.parquet")
    assert read_features(tmp_path / "items.parquet")[1].equals(rows)
    for name, text, problem in (
        ("a.csv", "genre\nx\n", "item ids"),
        ("b.csv", "item\n1\n", "nothing but ids"),
        ("c.txt", "", "not a table"),
        ("d.csv", "item,genre\n1,a\n,b\n", "no item id"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=problem):
            read_features(tmp_path / name)
    with pytest.raises(UserError, match="does not exist"):
        read_features(tmp_path / "gone.csv")


ROWS = [("3", "Tea pot", "a|b", "2.5", "true"), ("1", "Cup", "b", "7", "False")]


def _delimited(mark: str, *types: str) -> str:
    header = [
        name + kind for name, kind in zip(("item", "title", "tags", "price", "sold"), types or 5 * ("",), strict=True)
    ]
    return "".join(mark.join(row) + "\n" for row in (header, *ROWS))


def _write_tables(folder: Path) -> list[Path]:
    """The same table in every format that has a header."""
    csv = _delimited(",")
    (folder / "items.csv").write_text(csv)
    (folder / "items.tsv").write_text(_delimited("\t"))
    (folder / "items.item").write_text(_delimited("\t", ":token", ":token", ":token_seq", ":float", ":token"))
    (folder / "items.csv.gz").write_bytes(gzip.compress(csv.encode()))
    pl.read_csv(csv.encode()).lazy().sink_csv(folder / "items.csv.zst", compression="zstd", check_extension=False)
    pl.read_csv(csv.encode()).write_parquet(folder / "items.parquet")
    pl.read_csv(csv.encode()).write_ndjson(folder / "items.jsonl")
    return sorted(folder.iterdir())


def test_one_table_in_every_format(tmp_path: Path) -> None:
    paths = _write_tables(tmp_path)
    assert len(paths) == 7
    for path in paths:
        ids, features = read_features(path)
        assert ids.values.tolist() == [3, 1], path
        assert features.rows() == [("Tea pot", "a|b", 2.5, True), ("Cup", "b", 7.0, False)], path
        found = read_attributes(path, ids, ["tags", "price"])
        assert _pairs(found["tags"]) == [(0, "a"), (0, "b"), (1, "b")]
        np.testing.assert_array_equal(found["price"], [2.5, 7.0])  # type: ignore[arg-type]
        assert read_titles(ids, DataOptions(titles=str(path))) == ["Tea pot", "Cup"]


def test_lists_in_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text('{"item": "a", "tags": ["x", "y"], "code": "12"}\n{"item": "b", "tags": [], "code": "7"}\n')
    assert _pairs(read_attributes(path, ITEMS, ["tags"])["tags"]) == [(0, "x"), (0, "y")]
    ids, features = read_features(path)
    assert ids.values.tolist() == ["a", "b"]
    assert features["tags"].to_list() == [["x", "y"], []]
    assert features["code"].to_list() == ["12", "7"], "text stays text where a file has types"


def test_ids_are_kept_as_written_and_features_typed_by_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item,size,year\n" + "".join(f"{number:03},{number},2000\n" for number in range(200)) + "x,big,\n")
    ids, features = read_features(path)
    assert ids.values.tolist()[:2] == ["000", "001"]
    assert features.schema == {"size": pl.String, "year": pl.Int64}


def test_movielens_items_without_header(tmp_path: Path) -> None:
    path = tmp_path / "u.item"
    path.write_bytes("1|Caf\xe9 (1995)|01-Jan-1995\n2|Cup|\n".encode("latin-1"))
    assert read_features(path)[1]["title"].to_list() == ["Café (1995)", "Cup"]
    assert read_titles(IdMap.of([2, 1]), DataOptions(titles=str(path))) == ["Cup", "Café (1995)"]


@pytest.mark.parametrize("suffix", sorted(FORMATS))
def test_damage_is_a_sentence(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"items{suffix}"
    path.write_bytes(b"\x00\xff{]" * 20 + b"\n")
    with pytest.raises(UserError):
        read_features(path)
    with pytest.raises(UserError):
        read_attributes(path, ITEMS)


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([[[1]], [[2, 3]]]),
        pl.Series([{"a": 1}, {"a": 2}]),
        pl.Series([b"\xff", b"a"]),
        pl.Series([1, 2]).cast(pl.Duration),
        pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2)),
    ],
    ids=lambda values: str(values.dtype),
)
def test_values_that_no_text_stands_for_are_refused(tmp_path: Path, values: pl.Series) -> None:
    path = tmp_path / "items.parquet"
    table = pl.DataFrame({"item": ["a", "b"], "odd": values, "size": [1, 2]})
    table.write_parquet(path)
    for source in (path, table):
        with pytest.raises(UserError, match="in its column 'odd': give numbers"):
            read_features(source)
        with pytest.raises(UserError, match="in its column 'odd': give numbers"):
            read_attributes(source, ITEMS)
        assert list(read_attributes(source, ITEMS, ["size"])) == ["size"]
        with pytest.raises(UserError, match="in its column 'odd': give a number or a text"):
            read_features(table.select("odd", "size") if source is table else path, "odd")
