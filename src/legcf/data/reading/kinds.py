# SPDX-License-Identifier: Apache-2.0
"""Columns as text or numbers; what cannot be read as such is null."""

from typing import TypeVar

import polars as pl

Cells = TypeVar("Cells", pl.Expr, pl.Series)


def to_text(cells: Cells) -> Cells:
    return cells.cast(pl.String, strict=False)


def to_number(cells: Cells) -> Cells:
    return cells.cast(pl.Float64, strict=False)


def to_integer(cells: Cells) -> Cells:
    return cells.cast(pl.Int64, strict=False)
