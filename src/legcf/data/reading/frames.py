# SPDX-License-Identifier: Apache-2.0
"""Convert data in memory to a frame with a row for each pair: polars, pandas, Arrow, scipy's sparse matrices."""

from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

from legcf.core.errors import UserError

_ADVICE = (
    "give a path, a known name, a frame of polars, pandas or pyarrow with a user and an item column, or a scipy sparse "
    "matrix of users × items"
)


def frame_of(data: Any) -> pl.LazyFrame:
    """Return a frame of any library, or a sparse matrix, as a lazy frame of polars."""
    if isinstance(data, pl.DataFrame | pl.LazyFrame):
        return data.lazy()
    if sp.issparse(data):
        return _from_matrix(data)
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return _from_pandas(data)
    # What pyarrow, DuckDB and others offer to each other; pandas does so too, but only with pyarrow beside it.
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        with suppress(pl.exceptions.PolarsError):
            return pl.DataFrame(data).lazy()
    kind = type(data).__name__
    raise UserError(f"Data of the type {kind} cannot be read as interactions: {_ADVICE}.{_hint(data)}")


def _hint(data: Any) -> str:
    if isinstance(data, list | tuple):
        return " A list of pairs becomes one by polars.DataFrame(pairs, schema=['user', 'item'], orient='row')."
    if isinstance(data, dict):
        return " A dict of columns becomes one by polars.DataFrame(columns)."
    if isinstance(data, np.ndarray):
        return " A matrix of users × items becomes one by scipy.sparse.csr_array(matrix)."
    return ""


def _from_matrix(matrix: Any) -> pl.LazyFrame:
    """Return a pair for each entry that is not zero: its row and column are the ids, its value is the rating."""
    if matrix.ndim != 2:
        raise UserError(f"A sparse array of {matrix.ndim} dimension cannot be read: give one of users × items.")
    entries = matrix.tocoo()
    if entries.data.dtype.kind not in "biuf":
        raise UserError(f"A matrix of {entries.data.dtype} cannot be read as interactions: its values must be numbers.")
    if entries.data.dtype.kind == "f" and np.isnan(entries.data).any():
        raise UserError(
            f"The matrix has no number for a rating in {int(np.isnan(entries.data).sum()):,} entries (NaN)."
        )
    kept = entries.data != 0
    columns = {
        "user": entries.row[kept].astype(np.int64),
        "item": entries.col[kept].astype(np.int64),
        "rating": entries.data[kept].astype(np.float64),
    }
    return pl.DataFrame(columns).lazy()


def _from_pandas(data: Any) -> pl.LazyFrame:
    """Convert column by column, which needs no pyarrow."""
    if not data.columns.is_unique:
        twice = data.columns[data.columns.duplicated()][0]
        raise UserError(f"The frame has more than one column {twice!r}: give each its own name.")
    columns = {str(name): _pandas_values(data[name]) for name in data.columns}
    return pl.DataFrame(columns, strict=False).lazy()


def _pandas_values(column: Any) -> Any:
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert(None)
    is_plain = getattr(column.dtype, "kind", "O") in "biufM" and isinstance(column.dtype, np.dtype)
    return column.to_numpy() if is_plain else column.astype(object).where(column.notna(), None).tolist()
