# SPDX-License-Identifier: Apache-2.0
"""Convert columns to text or numbers, and find out which of them a column of text holds."""

from typing import TypeVar

import polars as pl

Cells = TypeVar("Cells", pl.Expr, pl.Series)


def to_text(cells: Cells) -> Cells:
    """Cast to text, null where that is impossible."""
    return cells.cast(pl.String, strict=False)


def to_number(cells: Cells) -> Cells:
    """Cast to Float64, null where that is impossible."""
    return cells.cast(pl.Float64, strict=False)


def spelled_numbers(values: pl.Series) -> pl.Series | None:
    """Return numbers, or text that spells a number wherever it is not blank, as Float64; None for other columns."""
    if values.dtype.is_numeric():
        numbers = to_number(values)
    elif values.dtype == pl.String:
        written = _without_blanks(values)
        numbers = to_number(written)
        if numbers.null_count() != written.null_count():
            return None
    else:
        return None
    return numbers if numbers.is_finite().any() else None


def typed(values: pl.Series) -> pl.Series:
    """Return a column of text as what all of it spells: integers, numbers, or true and false; else as it is."""
    if values.dtype != pl.String:
        return values
    numbers = spelled_numbers(values)
    if numbers is not None:
        integers = _without_blanks(values).cast(pl.Int64, strict=False)
        return integers if integers.null_count() == numbers.null_count() else numbers
    lower = values.str.to_lowercase()
    return lower == "true" if lower.drop_nulls().is_in(["true", "false"]).all() and lower.count() else values


def _without_blanks(values: pl.Series) -> pl.Series:
    return values.str.strip_chars().replace("", None)
