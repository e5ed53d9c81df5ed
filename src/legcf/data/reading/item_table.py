# SPDX-License-Identifier: Apache-2.0
"""Read a table of items or users, a row each: titles (`--titles`), attributes (`--items`), features.

All three take every format of `FORMATS`, plain or compressed. A column of a file without types (CSV and its kin) holds
numbers if all that is written in it spells numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.options import DEFAULTS, DataOptions
from legcf.data.reading.columns import find_column, listed, required_column
from legcf.data.reading.compressed import plain_suffix
from legcf.data.reading.diagnose import Files
from legcf.data.reading.encode import as_integers, as_text
from legcf.data.reading.formats import FORMATS, ITEM_NAMES, find_format, open_item_file
from legcf.data.reading.frames import frame_of
from legcf.data.reading.kinds import spelled_numbers, to_text, typed

_WORDLESS = (pl.Binary, pl.Object, pl.Duration)  # types of values that no text stands for
_SEPARATOR = "|"  # between several values of one item, as in "Action|Comedy"
_ADD_HEADER = "put one above it, such as `item,title`."


def read_titles(items: IdMap, options: DataOptions) -> list[str] | None:
    """Return a title for every item, in item order; an item the file does not have is called by its id."""
    if options.titles is None:
        return None
    path = Path(options.titles)
    with Files(DEFAULTS, {path: None}).reading():
        form, content = open_item_file(path)
        frame = form.scan(content, ITEM_NAMES)
        names = frame.collect_schema().names()
        item_col = options.item_col if options.item_col in names else None
        required = [find_column(names, "item", item_col), find_column(names, "title", options.title_col)]
        if form.lacks_header(names, required):
            raise UserError(f"{path} seems to have no header, for it starts with {listed(names)}: {_ADD_HEADER}")
        item = required_column(names, "item", item_col, str(path), _title_remedy)
        title = required_column(names, "title", options.title_col, str(path), _title_remedy)
        return match_titles(items, frame.select(as_text(item).alias("item"), as_text(title).alias("title")).collect())


def _title_remedy(names: Sequence[str], role: str) -> str:
    return f"Name the right one with `--{role}-col`; if the first line names no columns, {_ADD_HEADER}"


def match_titles(items: IdMap, titles: pl.DataFrame) -> list[str]:
    """Return a title for every item from the columns item and title, both text; of several titles, the smallest."""
    smallest = titles.drop_nulls().group_by("item").agg(pl.col("title").min())
    joined = _id_frame(items).join(smallest, on="item", how="left", maintain_order="left")
    return joined.select(pl.coalesce("title", "item")).to_series().to_list()


def _id_frame(items: IdMap) -> pl.DataFrame:
    return pl.DataFrame({"item": [str(value) for value in items.values.tolist()]}, schema={"item": pl.String})


@dataclass(frozen=True)
class TextValues:
    """Hold the values of a column of text, as pairs of item position and value."""

    items: NDArray[np.int64]
    values: list[str]


NumberValues = NDArray[np.float64]
"""The number of every item, by its position; NaN where there is none."""


def read_attributes(
    source: Any, items: IdMap, names: Sequence[str] | None = None, item_col: str | None = None
) -> dict[str, TextValues | NumberValues]:
    """Return columns of a file or frame by name (all but the item column by default), by positions of `items`."""
    is_file = isinstance(source, str | Path)
    where = str(source) if is_file else "The frame of attributes"
    frame = _read(Path(source)) if is_file else frame_of(source).collect()
    item = required_column(frame.columns, "item", item_col, where)
    selected = [name for name in frame.columns if name != item] if names is None else list(names)
    missing = [name for name in selected if name not in frame.columns]
    if missing:
        raise UserError(f"{where} has no column {missing[0]!r}: its columns are {listed(frame.columns)}.")
    _check_types(where, frame.select(item, *selected), item)
    table = frame.select(as_text(item).alias("item"), *(pl.col(name).alias(f"= {name}") for name in selected))
    rows = table.join(_id_frame(items).with_row_index("position"), on="item", how="inner")
    if not len(rows):
        raise UserError(f"{where} has none of the model's items in its column {item!r}: name the right one.")
    columns = {name: rows.select("position", value=pl.col(f"= {name}")) for name in selected}
    return {name: _values(where, name, column, len(items)) for name, column in columns.items()}


def _values(where: str, name: str, column: pl.DataFrame, num_items: int) -> TextValues | NumberValues:
    numbers = spelled_numbers(column["value"])
    if numbers is not None:
        finite = column.with_columns(value=numbers).filter(pl.col("value").is_finite())
        smallest = finite.group_by("position").agg(pl.col("value").min())
        values = np.full(num_items, np.nan)
        values[smallest["position"].to_numpy()] = smallest["value"].to_numpy()
        return values
    if isinstance(column.schema["value"], pl.List):
        column = column.explode("value")
    texts = to_text(pl.col("value")).str.split(_SEPARATOR)
    pairs = column.select("position", value=texts).explode("value").with_columns(pl.col("value").str.strip_chars())
    pairs = pairs.filter(pl.col("value").is_not_null() & (pl.col("value") != ""))
    if not len(pairs):
        raise UserError(f"The column {name!r} of {where} has no value for any of the model's items: leave it out.")
    return TextValues(pairs["position"].to_numpy().astype(np.int64), pairs["value"].to_list())


def read_features(
    source: Any, id_col: str | None = None, kind: Literal["item", "user"] = "item"
) -> tuple[IdMap, pl.DataFrame]:
    """Return the ids of a file or frame, and its other columns, typed; a repeated item or user keeps its first row."""
    path = Path(source) if isinstance(source, str | Path) else None
    where = f"The frame of {kind} features" if path is None else str(path)
    if path is not None and plain_suffix(path) not in FORMATS:
        raise UserError(f"{path} is not a table of {kind}s: give a file ending in {', '.join(FORMATS)}.")
    table = frame_of(source).collect() if path is None else _read(path)
    column = required_column(table.columns, kind, id_col, where)
    _check_types(where, table, column)
    if table[column].null_count():
        raise UserError(f"{where} has no {kind} id in {table[column].null_count():,} rows: give every row one.")
    table = table.unique(column, keep="first", maintain_order=True)
    ids, features = table[column], table.drop(column)
    if not features.width or not table.height:
        raise UserError(f"{where} has nothing but ids: give at least one {kind} and one column that says something.")
    if path is not None and find_format(path, DEFAULTS).is_text and ids.dtype == pl.String:
        integers = as_integers(ids)
        ids = ids if integers is None else integers
    if path is not None and not find_format(path, DEFAULTS).is_typed:
        features = features.select(typed(values) for values in features)
    is_number = ids.dtype.is_integer() and ids.dtype != pl.Int128
    return IdMap.of((ids if is_number else to_text(ids)).to_list(), kind), features


def _check_types(where: str, table: pl.DataFrame, id_col: str) -> None:
    """Refuse columns whose values are neither numbers nor texts nor times, nor lists of those."""
    for name, dtype in table.schema.items():
        inner = dtype.inner if isinstance(dtype, pl.List) and name != id_col else dtype
        if inner.is_nested() or inner in _WORDLESS:
            form = "a number or a text" if name == id_col else "numbers, texts or lists of texts, or leave it out"
            raise UserError(f"{where} has values of the type {str(dtype)[:60]} in its column {name!r}: give {form}.")


def _read(path: Path) -> pl.DataFrame:
    """Read all rows with the types that the file states; in a file without types every column is text."""
    with Files(DEFAULTS, {path: None}).reading():
        form, content = open_item_file(path)
        return form.scan_items(content).collect()
