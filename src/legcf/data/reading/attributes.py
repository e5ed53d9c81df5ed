# SPDX-License-Identifier: Apache-2.0
"""Attributes of items from a table with a row for each item: what kind each column is, and its values by position."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.options import DataOptions
from legcf.data.reading.columns import listed, required_column
from legcf.data.reading.encode import as_text
from legcf.data.reading.formats import scan_titles
from legcf.data.reading.kinds import to_number, to_text

_BETWEEN = "|"  # between several values of one item, as in "Action|Comedy"


@dataclass(frozen=True)
class TextValues:
    """Pairs of item and value."""

    items: NDArray[np.int64]
    values: list[str]


NumberValues = NDArray[np.float64]
"""Of every item; NaN where there is none."""


def read_attributes(
    path: Path, items: IdMap, names: Sequence[str] | None = None, item_col: str | None = None
) -> dict[str, TextValues | NumberValues]:
    """The columns of a table by name (all but the items' own by default), in the order of `items`."""
    options = DataOptions()
    frame = scan_titles(path, options)
    columns = frame.collect_schema().names()
    item = required_column(columns, "item", item_col, str(path))
    chosen = [name for name in columns if name != item] if names is None else list(names)
    missing = [name for name in chosen if name not in columns]
    if missing:
        raise UserError(f"{path} has no column {missing[0]!r}: its columns are {listed(columns)}.")
    table = frame.select(as_text(item).alias("item"), *(pl.col(name).alias(f"= {name}") for name in chosen)).collect()
    places = pl.DataFrame(
        {"item": [str(value) for value in items.values.tolist()], "place": np.arange(len(items), dtype=np.int64)},
        schema={"item": pl.String, "place": pl.Int64},
    )
    known = table.join(places, on="item", how="inner")
    if not len(known):
        raise UserError(f"{path} has none of the model's items in its column {item!r}: name the right one.")
    return {name: _values(path, name, known.select("place", value=pl.col(f"= {name}")), len(items)) for name in chosen}


def _values(path: Path, name: str, frame: pl.DataFrame, num_items: int) -> TextValues | NumberValues:
    numbers = _as_numbers(frame["value"])
    if numbers is not None:
        found = frame.with_columns(value=numbers).filter(pl.col("value").is_finite())
        found = found.group_by("place").agg(pl.col("value").min())
        values = np.full(num_items, np.nan)
        values[found["place"].to_numpy()] = found["value"].to_numpy()
        return values
    if isinstance(frame.schema["value"], pl.List):
        frame = frame.explode("value")
    texts = to_text(pl.col("value")).str.split(_BETWEEN)
    pairs = frame.select("place", value=texts).explode("value").with_columns(pl.col("value").str.strip_chars())
    pairs = pairs.filter(pl.col("value").is_not_null() & (pl.col("value") != ""))
    if not len(pairs):
        raise UserError(f"The column {name!r} of {path} has no value for any of the model's items: leave it out.")
    return TextValues(pairs["place"].to_numpy(), pairs["value"].to_list())


def _as_numbers(values: pl.Series) -> pl.Series | None:
    """A column of numbers, or of text that spells a number wherever it says anything."""
    if values.dtype.is_numeric():
        numbers = to_number(values)
    elif values.dtype == pl.String:
        told = values.str.strip_chars().replace("", None)
        numbers = to_number(told)
        if numbers.null_count() != told.null_count():
            return None
    else:
        return None
    return numbers if numbers.is_finite().any() else None
