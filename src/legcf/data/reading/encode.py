# SPDX-License-Identifier: Apache-2.0
"""Encode external ids as positions among the sorted distinct ids of a source, whatever their type."""

from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from legcf.core.arrays import sorted_unique
from legcf.core.errors import UserError
from legcf.data.ids import IdMap

# Integers below this are looked up in a table, larger ones by bisection.
_TABLE_SIZE = 1 << 26
_PLAIN_INTEGER = r"^(0|-?[1-9][0-9]*)$"
_LARGEST = int(np.iinfo(np.int64).max)


class IntegerIds:
    """Gather distinct non-negative integers, array by array; then encode them as positions among the sorted ones."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._present = np.zeros(1 << 16, dtype=np.bool_)
        self._large: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)

    def add(self, values: NDArray[np.uint64]) -> None:
        if len(values) == 0:
            return
        highest = int(values.max())
        if highest >= _TABLE_SIZE:
            large = values >= _TABLE_SIZE
            self._large = sorted_unique(np.concatenate([self._large, values[large]]))
            values = values[~large]
            highest = int(values.max(initial=0))
        if highest >= len(self._present):
            grown = np.zeros(max(highest + 1, 2 * len(self._present)), dtype=np.bool_)
            grown[: len(self._present)] = self._present
            self._present = grown
        self._present[values.view(np.int64)] = True

    @cached_property
    def ids(self) -> IdMap:
        small = np.flatnonzero(self._present)
        if len(self._large) == 0:
            return IdMap(small, self._kind)
        values = np.concatenate([small.astype(np.uint64), self._large])
        return IdMap(values.astype(np.int64) if int(values[-1]) <= _LARGEST else values, self._kind)

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        return np.cumsum(self._present, dtype=np.int32) - np.int32(1)

    def encode(self, values: NDArray[np.uint64]) -> NDArray[np.int32]:
        if len(self._large) == 0:
            return self._table[values.view(np.int64)]
        return np.searchsorted(self.ids.values.astype(np.uint64), values).astype(np.int32)


def as_text(column: str) -> pl.Expr:
    """Return a column as text: an id or a title is a name, whatever it was read as."""
    return pl.col(column).cast(pl.String)


def id_lookup(distinct: pl.Series, kind: str, untyped: bool) -> tuple[IdMap, pl.DataFrame]:
    """Return the id map of a column's distinct values, and a frame to join with: value (named `kind`) and position.

    In an `untyped` column, one of a text file, what looks like integers throughout is taken for integers.
    """
    integers = as_integers(distinct) if untyped and distinct.dtype == pl.String else None
    values = distinct if integers is None else integers
    if values.dtype.is_integer() and (values.dtype != pl.UInt64 or _highest(values) <= _LARGEST):
        values = values.cast(pl.Int64)
    frame = pl.DataFrame({kind: distinct, "value": values}).sort("value")
    ordered = frame["value"]
    ids = ordered.to_numpy() if ordered.dtype.is_integer() else np.asarray(ordered.to_list(), dtype=object)
    position = pl.int_range(pl.len(), dtype=pl.Int32).alias(f"{kind}_position")
    return IdMap(ids, kind), frame.select(kind, position)


def id_column(column: str, dtype: pl.DataType, kind: str, where: str) -> pl.Expr:
    """Return the ids of a column: integers stay as they are, everything else is text."""
    if dtype.is_float() or dtype.is_nested() or dtype in (pl.Binary, pl.Object, pl.Null):
        raise UserError(f"{where}: column {column!r} has the type {dtype}, but {kind} ids must be integers or text.")
    expression = pl.col(column)
    return (expression if dtype.is_integer() and dtype != pl.Int128 else expression.cast(pl.String)).alias(kind)


def as_integers(distinct: pl.Series) -> pl.Series | None:
    """Return the values as 64-bit integers if every one is spelled plainly (no "007", no "+1") and fits, else None."""
    if not distinct.str.contains(_PLAIN_INTEGER).all():
        return None
    for dtype in (pl.Int64, pl.UInt64):
        integers = distinct.cast(dtype, strict=False)
        if integers.null_count() == 0:
            return integers
    return None


def _highest(values: pl.Series) -> int:
    highest = values.max()
    return highest if isinstance(highest, int) else 0
