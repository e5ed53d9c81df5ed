"""Columns as text or numbers; what cannot be read as such is null."""

from typing import TypeVar

import polars as pl

Column = TypeVar("Column", pl.Expr, pl.Series)


def to_text(column: Column) -> Column:
    return column.cast(pl.String, strict=False)


def to_number(column: Column) -> Column:
    return column.cast(pl.Float64, strict=False)


def to_integer(column: Column) -> Column:
    return column.cast(pl.Int64, strict=False)
