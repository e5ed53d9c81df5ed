# SPDX-License-Identifier: Apache-2.0
"""Fit a coder to the columns of a table, and code its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

from legcf.core.errors import UserError
from legcf.data.reading.kinds import to_number, to_text
from legcf.features.coder import FeatureCoder, FeatureColumn, Kind

HASHED_WIDTH = 1024
"""Entries in a row of all columns but those of numbers. Not measured."""
_ENTRIES_PER_TOKEN = 4  # so that two tokens seldom share one; not measured
_SEPARATORS = ("|", ";")
_BINS = 8
_MOST_COLUMNS = 100  # each has a weight of its own: 50 took 4 to 13 s for 300 users, and time grows by the fourth power
_SEPARATED = 0.1  # of the values that have a separator, for a column of tags
_WORDS = 2.5  # per value on average, for a text
_DISTINCT = 0.5  # share of values that are unlike all others, for a text


def fitted_coder(table: pl.DataFrame, kinds: Mapping[str, Kind] | None = None) -> FeatureCoder:
    """Return a coder for the columns of a table, each of the kind in `kinds` or else the one that it looks like."""
    if table.width > _MOST_COLUMNS:
        raise UserError(
            f"The features have {table.width:,} columns, and at most {_MOST_COLUMNS} are learnt from: keep those that"
            " say most."
        )
    fixed = dict(kinds or {})
    for name in fixed:
        if name not in table.columns:
            raise UserError(f"The item features have no column {name!r}: they have {', '.join(table.columns)}.")
    columns = [_fitted(table[name], fixed.get(name)) for name in table.columns]
    hashed = [index for index, column in enumerate(columns) if column.kind != "number"]
    needs = [_needed_width(columns[index], table[columns[index].name]) for index in hashed]
    for index, width in zip(hashed, shared(needs, HASHED_WIDTH), strict=True):
        columns[index] = replace(columns[index], width=width)
    return FeatureCoder(tuple(columns))


def shared(needs: Sequence[int], total: int) -> list[int]:
    """Return widths of `total` in all: the smallest needs first, each at most an equal part of what is left."""
    widths = list(needs)
    for done, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        widths[index] = max(1, min(needs[index], total // (len(needs) - done)))
        total -= widths[index]
    return widths


def _needed_width(column: FeatureColumn, values: pl.Series) -> int:
    """Return so many entries that tokens seldom share one."""
    tokens = {token for value in _plain(values, column.kind) for token in column.tokens(value)}
    return _ENTRIES_PER_TOKEN * max(len(tokens), 1)


def coded(coder: FeatureCoder, table: pl.DataFrame) -> sp.csr_matrix:
    """Return a row of features for each row of the table."""
    missing = [column.name for column in coder.columns if column.name not in table.columns]
    if missing:
        raise UserError(f"The item features have no column {missing[0]!r}, which the model learnt from.")
    columns = [_plain(table[column.name], column.kind) for column in coder.columns]
    names = [column.name for column in coder.columns]
    rows = [coder.row(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]
    indptr = np.concatenate([[0], np.cumsum([len(entries) for entries, _ in rows], dtype=np.int64)])
    nothing = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))]
    entries, values = (np.concatenate(part) for part in zip(*(rows or nothing), strict=True))
    return sp.csr_matrix((values, entries, indptr), shape=(table.height, coder.width))


def _plain(values: pl.Series, kind: Kind) -> list[Any]:
    """Return values as a coder takes them."""
    if values.dtype == pl.List:
        return values.cast(pl.List(pl.String), strict=False).to_list()
    return (to_number(values) if kind == "number" else to_text(values)).to_list()


def _fitted(values: pl.Series, kind: Kind | None) -> FeatureColumn:
    kind = kind or _looks_like(values)
    if kind == "number":
        read = to_number(values)
        numbers = read.filter(read.is_finite())
        if not len(numbers):
            return FeatureColumn(name=values.name, kind="category")
        given = numbers.to_numpy()
        _, exponent = np.frexp(np.abs(given).max())  # what is computed from the largest float must not exceed it
        small = np.ldexp(given, -exponent)
        edges = np.unique(np.ldexp(np.quantile(small, np.arange(1, _BINS) / _BINS), exponent))
        return FeatureColumn(
            name=values.name,
            kind="number",
            width=len(edges) + 2,
            mean=float(np.ldexp(small.mean(), exponent)),
            deviation=float(np.ldexp(small.std(), exponent)) or 1.0,
            edges=tuple(float(edge) for edge in edges),
        )
    if kind == "tags" and values.dtype == pl.String:
        counts = {mark: int(values.str.contains(mark, literal=True).sum()) for mark in (*_SEPARATORS, ",")}
        return FeatureColumn(name=values.name, kind="tags", separator=max(counts, key=counts.__getitem__))
    return FeatureColumn(name=values.name, kind=kind)


def _looks_like(values: pl.Series) -> Kind:
    if values.dtype.is_numeric():
        return "number"
    if values.dtype == pl.List:
        return "tags"
    texts = to_text(values).drop_nulls()
    if not len(texts):
        return "category"
    if any(texts.str.contains(mark, literal=True).mean() >= _SEPARATED for mark in _SEPARATORS):  # type: ignore[operator]
        return "tags"
    words = float(texts.str.count_matches(r"\s+").mean() or 0) + 1  # type: ignore[arg-type]
    return "text" if words >= _WORDS and texts.n_unique() >= _DISTINCT * len(texts) else "category"
