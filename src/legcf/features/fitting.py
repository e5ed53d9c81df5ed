# SPDX-License-Identifier: Apache-2.0
"""A coder for the columns of a table, and the rows that it makes of one."""

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
"""Places of all columns but those of numbers."""
_PLACES_PER_TOKEN = 4
_SEPARATORS = ("|", ";")
_BINS = 8
_SEPARATED = 0.1  # of the values that have a separator, for a column of tags
_WORDS = 2.5  # per value on average, for a text
_DISTINCT = 0.5  # share of values that are unlike all others, for a text


def fitted_coder(table: pl.DataFrame, kinds: Mapping[str, Kind] | None = None) -> FeatureCoder:
    """For the columns of a table, each of the kind that is given or that it looks like."""
    given = dict(kinds or {})
    for name in given:
        if name not in table.columns:
            raise UserError(f"The item features have no column {name!r}: they have {', '.join(table.columns)}.")
    columns = [_fitted(table[name], given.get(name)) for name in table.columns]
    hashed = [place for place, column in enumerate(columns) if column.kind != "number"]
    wanted = [_wanted(columns[place], table[columns[place].name]) for place in hashed]
    for place, width in zip(hashed, shared(wanted, HASHED_WIDTH), strict=True):
        columns[place] = replace(columns[place], width=width)
    return FeatureCoder(tuple(columns))


def shared(wanted: Sequence[int], room: int) -> list[int]:
    """To each what it wants, where that is less than an equal part of what is left of the room."""
    widths = list(wanted)
    for served, place in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        widths[place] = max(1, min(wanted[place], room // (len(wanted) - served)))
        room -= widths[place]
    return widths


def _wanted(column: FeatureColumn, values: pl.Series) -> int:
    """So many places that tokens seldom meet."""
    tokens = {token for value in _plain(values, column.kind) for token in column.tokens(value)}
    return _PLACES_PER_TOKEN * max(len(tokens), 1)


def coded(coder: FeatureCoder, table: pl.DataFrame) -> sp.csr_matrix:
    """A row for each row of the table."""
    missing = [column.name for column in coder.columns if column.name not in table.columns]
    if missing:
        raise UserError(f"The item features have no column {missing[0]!r}, which the model learnt from.")
    columns = [_plain(table[column.name], column.kind) for column in coder.columns]
    names = [column.name for column in coder.columns]
    rows = [coder.row(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]
    indptr = np.concatenate([[0], np.cumsum([len(places) for places, _ in rows], dtype=np.int64)])
    nothing = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))]
    places, values = (np.concatenate(part) for part in zip(*(rows or nothing), strict=True))
    return sp.csr_matrix((values, places, indptr), shape=(table.height, coder.width))


def _plain(values: pl.Series, kind: Kind) -> list[Any]:
    """As a coder takes them."""
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
        edges = np.unique(np.quantile(numbers.to_numpy(), np.arange(1, _BINS) / _BINS))
        return FeatureColumn(
            name=values.name,
            kind="number",
            width=len(edges) + 2,
            mean=float(numbers.to_numpy().mean()),
            deviation=float(numbers.to_numpy().std()) or 1.0,
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
