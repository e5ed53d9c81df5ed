# SPDX-License-Identifier: Apache-2.0
"""A table of items: an id and what is known of each, from a file or a frame."""

from pathlib import Path
from typing import Any

import polars as pl

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.reading.columns import required_column
from legcf.data.reading.encode import as_text
from legcf.data.reading.frames import frame_of

_READERS = {
    ".csv": pl.read_csv,
    ".tsv": lambda path: pl.read_csv(path, separator="\t"),
    ".parquet": pl.read_parquet,
    ".jsonl": pl.read_ndjson,
}


def read_items(source: Any, item_col: str | None = None) -> tuple[IdMap, pl.DataFrame]:
    """The ids of a table's items, and the table without them; a repeated item is taken as it stands first."""
    where = str(source) if isinstance(source, str | Path) else "The frame of item features"
    table = _read(Path(source)) if isinstance(source, str | Path) else frame_of(source).collect()
    column = required_column(table.columns, "item", item_col, where)
    if table[column].null_count():
        raise UserError(f"{where} has no item id in {table[column].null_count():,} rows: give every row one.")
    if not table[column].dtype.is_integer():
        table = table.with_columns(as_text(column))
    table = table.unique(column, keep="first", maintain_order=True)
    known = table.drop(column)
    if not known.width or not table.height:
        raise UserError(f"{where} has nothing but ids: give at least one item and one column that says something.")
    return IdMap.of(table[column].to_list(), "item"), known


def _read(path: Path) -> pl.DataFrame:
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path} is not a table of items: give a file ending in {', '.join(_READERS)}.")
    try:
        return reader(path)
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist.") from error
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(f"{path} cannot be read: {str(error).splitlines()[0]}.") from error
