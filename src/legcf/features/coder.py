# SPDX-License-Identifier: Apache-2.0
"""Code the features of an item or a user as a sparse row of fixed width.

A category is a token, every tag is one, every word of a text is one, and tokens are hashed into the entries that their
column has in a row. A number is the bin that it lies in and its distance from the mean. Hashing needs no vocabulary: a
coder is the kinds and widths of its columns and the scales of its numbers. Columns and signs of tokens are those of
scikit-learn's `FeatureHasher` (MurmurHash3), texts are cut into words as its `HashingVectorizer` cuts them. Numpy only:
a server codes as training did.
"""

import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from legcf.core.arrays import FloatArray, LongArray
from legcf.core.errors import UserError

Kind = Literal["category", "tags", "text", "number"]
_WIDEST = 2**16
_FAR = 3.0  # deviations from the mean, beyond which a number is no farther
_WORD = re.compile(r"\b\w\w+\b")
_MASK = 0xFFFFFFFF
_FIRST, _SECOND = 0xCC9E2D51, 0x1B873593
_CACHED = 2**17  # tokens whose columns are remembered


@dataclass(frozen=True)
class FeatureColumn:
    """Code one column of the table."""

    name: str
    kind: Kind
    width: int = 1
    """Entries in a row. A number has one for each bin, and a last one for the distance from the mean."""
    separator: str = "|"
    mean: float = 0.0
    deviation: float = 1.0
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check everything: files come from strangers."""
        numbers = (self.mean, self.deviation, *self.edges)
        if not (
            isinstance(self.name, str)
            and self.kind in get_args(Kind)
            and type(self.width) is int
            and 1 <= self.width <= _WIDEST
            and isinstance(self.separator, str)
            and self.separator
            and all(isinstance(number, float | int) and math.isfinite(number) for number in numbers)
            and self.deviation > 0
            and all(low < high for low, high in pairwise(self.edges))
        ):
            raise ValueError(f"the feature {self.name!r} is not understood")

    def coded(self, value: Any) -> dict[int, float]:
        """Return entries and their values for one item; none where the value is missing."""
        if self.kind != "number":
            counts: dict[int, float] = {}
            for token in self.tokens(value):
                entry, sign = hashed_column(token, self.width)
                counts[entry] = counts.get(entry, 0.0) + sign
            return _unit(counts)  # so every column that has a value counts as much as any other
        number = float_or_none(value)
        if number is None:
            return {}
        distance = min(max((number - self.mean) / self.deviation, -_FAR), _FAR) / _FAR
        return {min(bisect_left(self.edges, number), self.width - 1): 1.0, self.width - 1: distance}

    def tokens(self, value: Any) -> list[str]:
        """Return the tokens of a value, in any column but one of numbers."""
        if value is None:
            return []
        if isinstance(value, list | tuple):
            return [as_written(one) for one in value if one is not None]
        text = as_written(value)
        if self.kind == "text":
            return words(text)
        if self.kind == "category":
            return [text]
        return [tag.strip() for tag in text.split(self.separator) if tag.strip()]


@dataclass(frozen=True)
class FeatureCoder:
    """Turn features into a row; fitted once, and the same for items and users that come later."""

    columns: tuple[FeatureColumn, ...]

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_json(cls, columns: list[dict[str, Any]]) -> "FeatureCoder":
        """Read what `to_json` gave; anything else is a ValueError or TypeError."""
        return cls(tuple(FeatureColumn(**{**column, "edges": tuple(column["edges"])}) for column in columns))

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns)

    @property
    def widths(self) -> list[int]:
        """Return the widths of the columns, which stand side by side."""
        return [column.width for column in self.columns]

    def row(self, features: Mapping[str, Any]) -> tuple[LongArray, FloatArray]:
        """Return the entries of one item's row and their values, of length 1.

        Missing features are left out; a name that the coder does not know is refused.
        """
        unknown = set(features) - {column.name for column in self.columns}
        if unknown:
            names = ", ".join(column.name for column in self.columns)
            raise UserError(f"Nothing was learnt from a feature {min(unknown)!r}: the model knows {names}.")
        total: dict[int, float] = {}
        first = 0
        for column in self.columns:
            total |= {first + entry: value for entry, value in column.coded(features.get(column.name)).items()}
            first += column.width
        entries = sorted(_unit(total).items())
        indices = np.array([entry for entry, _ in entries], dtype=np.int64)
        return indices, np.array([value for _, value in entries], dtype=np.float32)


def _unit(row: dict[int, float]) -> dict[int, float]:
    """Scale a row to length 1; return nothing where everything cancels."""
    length = math.sqrt(sum(value * value for value in row.values()))
    return {entry: value / length for entry, value in row.items() if value} if length > 0 else {}


def as_written(value: Any) -> str:
    """Return a value as tables write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def float_or_none(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@lru_cache(maxsize=_CACHED)
def hashed_column(token: str, width: int) -> tuple[int, float]:
    """Return the column of a token among `width`, and its sign: tokens that meet cancel as often as they add up."""
    code = murmur3(token.encode("utf-8", "surrogatepass"))
    return abs(code) % width, 1.0 if code >= 0 else -1.0


def murmur3(data: bytes) -> int:
    """Return MurmurHash3 (x86, 32 bits, seed 0) as a signed number."""
    code, whole = 0, len(data) & ~3
    for start in range(0, whole, 4):
        code ^= _mixed(int.from_bytes(data[start : start + 4], "little"))
        code = (_turned(code, 13) * 5 + 0xE6546B64) & _MASK
    code ^= _mixed(int.from_bytes(data[whole:], "little")) ^ len(data)
    code = ((code ^ code >> 16) * 0x85EBCA6B) & _MASK
    code = ((code ^ code >> 13) * 0xC2B2AE35) & _MASK
    code ^= code >> 16
    return code - 2**32 if code >= 2**31 else code


def words(text: str) -> list[str]:
    """Return the words of two letters or more, in lower case and without accents."""
    apart = unicodedata.normalize("NFKD", text.lower())
    return _WORD.findall("".join(letter for letter in apart if not unicodedata.combining(letter)))


def _mixed(block: int) -> int:
    return (_turned(block * _FIRST & _MASK, 15) * _SECOND) & _MASK


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK
