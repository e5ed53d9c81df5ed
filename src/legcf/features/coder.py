"""What is known of items besides who has them, as sparse rows of fixed width: tokens hashed into a few columns.

A category is a token, every tag is one, every word of a text is one, and a number is the bin that it lies in and its
distance from the mean. Tokens carry the name of their column. Hashing needs no vocabulary, so that what is kept of a
coder is the kinds of its columns and the scales of its numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import norm

from legcf.configuration import Frozen
from legcf.data.kinds import to_number, to_text
from legcf.errors import MissingExtra, UserError

Kind = Literal["category", "tags", "text", "number"]
HASHED_WIDTH = 1024
_SEPARATORS = ("|", ";")
_BINS = 8
_SEPARATED = 0.1  # of the values that have a separator, for a column of tags
_WORDS = 2.5  # per value on average, for a text
_DISTINCT = 0.5  # share of values that are unlike all others, for a text


class FeatureColumn(Frozen):
    name: str
    kind: Kind
    separator: str = "|"
    mean: float = 0.0
    deviation: float = 1.0
    edges: tuple[float, ...] = ()


class FeatureCoder(Frozen):
    """How a table of items becomes rows; fitted once, and the same for items that come later."""

    columns: tuple[FeatureColumn, ...]
    width: int = HASHED_WIDTH

    @classmethod
    def fitted(
        cls, table: pl.DataFrame, kinds: Mapping[str, Kind] | None = None, width: int = HASHED_WIDTH
    ) -> "FeatureCoder":
        """For the columns of a table, each of the kind that is given or that it looks like."""
        given = dict(kinds or {})
        for name in given:
            if name not in table.columns:
                raise UserError(f"The item features have no column {name!r}: they have {', '.join(table.columns)}.")
        return cls(columns=tuple(_fitted(table[name], given.get(name)) for name in table.columns), width=width)

    def rows(self, table: pl.DataFrame) -> sp.csr_matrix:
        """A row for each row of the table; every column that has a value there counts as much as any other."""
        missing = [column.name for column in self.columns if column.name not in table.columns]
        if missing:
            raise UserError(f"The item features have no column {missing[0]!r}, which the model learnt from.")
        total = sp.csr_matrix((table.height, self.width), dtype=np.float32)
        for column in self.columns:
            total = total + _unit(_hashed(_tokens(table[column.name], column), self.width))
            if column.kind == "number":
                total = total + _hashed_numbers(table[column.name], column, self.width)
        counts = np.maximum(norm(total, axis=1), 1e-12)
        return sp.csr_matrix(sp.diags(1 / counts) @ total, dtype=np.float32)


def _fitted(values: pl.Series, kind: Kind | None) -> FeatureColumn:
    kind = kind or _looks_like(values)
    if kind == "number":
        numbers = to_number(values).drop_nulls().drop_nans()
        if not len(numbers):
            return FeatureColumn(name=values.name, kind="category")
        edges = np.unique(np.quantile(numbers.to_numpy(), np.arange(1, _BINS) / _BINS))
        return FeatureColumn(
            name=values.name,
            kind="number",
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


def _tokens(values: pl.Series, column: FeatureColumn) -> list[list[str]]:
    name = column.name
    if column.kind == "number":
        numbers = to_number(values).to_list()
        bins = [None if _is_missing(one) else int(np.searchsorted(column.edges, one)) for one in numbers]
        return [[] if one is None else [f"{name}#{one}"] for one in bins]
    if values.dtype == pl.List:
        return [[f"{name}={one}" for one in (some or [])] for some in values.to_list()]
    texts: list[str | None] = to_text(values).to_list()
    if column.kind == "category":
        return [[] if one is None else [f"{name}={one}"] for one in texts]
    if column.kind == "tags":
        separated = ([] if one is None else one.split(column.separator) for one in texts)
        return [[f"{name}={tag.strip()}" for tag in tags if tag.strip()] for tags in separated]
    split = _words()
    return [[f"{name}:{word}" for word in split(one or "")] for one in texts]


def _hashed(tokens: Sequence[Sequence[str]], width: int) -> sp.csr_matrix:
    try:
        from sklearn.feature_extraction import FeatureHasher
    except ImportError as error:
        raise MissingExtra("Item features", "features") from error
    return FeatureHasher(width, input_type="string", dtype=np.float32).transform(tokens).tocsr()


def _words() -> Any:
    """How a text is cut into words."""
    try:
        from sklearn.feature_extraction.text import HashingVectorizer
    except ImportError as error:
        raise MissingExtra("Item features", "features") from error
    return HashingVectorizer(strip_accents="unicode").build_analyzer()


def _hashed_numbers(values: pl.Series, column: FeatureColumn, width: int) -> sp.csr_matrix:
    numbers: NDArray[np.float64] = to_number(values).fill_null(np.nan).to_numpy()
    scaled = np.clip((numbers - column.mean) / column.deviation, -3, 3) / 3
    place = _hashed([[f"{column.name}~"]], width)
    return sp.csr_matrix(np.nan_to_num(scaled, nan=0.0)[:, None]) @ place


def _unit(rows: sp.csr_matrix) -> sp.csr_matrix:
    lengths = norm(rows, axis=1)
    return sp.csr_matrix(sp.diags(1 / np.where(lengths > 0, lengths, 1)) @ rows)


def _is_missing(value: float | None) -> bool:
    return value is None or value != value
