# SPDX-License-Identifier: Apache-2.0
"""Hold attributes of items (category, brand, price, any column of a table) in few bytes, and look items up by value.

text    values of each item, none or several ("Action|Comedy"), as sorted pairs of item and value
number  one value of each item or none, as its rank among all values of the column

Numpy only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.modelfile import codecs
from legcf.modelfile.histories import PackedHistories
from legcf.ranking.tables.packing import smallest_integers

Scalar = str | int | float | bool
ItemMask = NDArray[np.bool_]
_MOST_LISTED = 100  # values of a column that the page offers
_FEW_VALUES = 16  # for less than this part of a column's values their items are looked up, else all items' values
_MOST_VALUES = 2**31


class BadRule(UserError):
    """Refuse a rule that does not fit the attributes of the file."""


@dataclass(frozen=True, eq=False)
class TextColumn:
    """Hold text, one value or several for each item."""

    kind: ClassVar[str] = "text"

    values: list[str]
    pairs: Interactions
    """Item → indices of its values; so its `num_users` is the number of items."""

    def __len__(self) -> int:
        return self.pairs.num_rows

    @cached_property
    def _items(self) -> Interactions:
        return self.pairs.transposed()

    @cached_property
    def _index(self) -> dict[str, int]:
        return {value: index for index, value in enumerate(self.values)}

    @cached_property
    def _is_single(self) -> bool:
        """Return whether every item has just one value."""
        return self.pairs.num_pairs == len(self) and bool((self.pairs.row_lengths == 1).all())

    def equal(self, values: Iterable[Scalar]) -> ItemMask:
        """Mark the items that have one of these values."""
        index_of = self._index.get
        indices = [index_of(value if type(value) is str else written(value)) for value in values]
        known_indices = np.array([index for index in indices if index is not None], dtype=np.int64)
        if len(known_indices) * _FEW_VALUES > len(self.values):
            matches = np.zeros(len(self.values), dtype=np.bool_)
            matches[known_indices] = True
            has = matches.take(self.pairs.items)
            if self._is_single:
                return has
            holders = self.pairs.rows()[has]
        else:
            holders = self._items.of_users(np.unique(known_indices)).items
        inside = np.zeros(len(self), dtype=np.bool_)
        inside[holders] = True
        return inside

    def between(self, lowest: float | None, highest: float | None) -> ItemMask:
        """Mark the items with a number from `lowest` to `highest`, both included."""
        raise BadRule("holds text, which has no smallest and largest: filter it by values.")

    def keys(self, item: int) -> Sequence[int]:
        """Return an integer for each value of an item."""
        keys: list[int] = self.pairs.of(item).tolist()
        return keys

    def described(self) -> dict[str, Any]:
        """Return what requests can filter by."""
        counts = self.pairs.item_degrees
        order = np.argsort(-counts, kind="stable")[:_MOST_LISTED].tolist()
        offered = [{"value": self.values[index], "items": int(counts[index])} for index in order]
        return {"kind": self.kind, "values": offered, "distinct": len(self.values)}

    def longer(self, more: int) -> "TextColumn":
        """Return the column with `more` items at the end that have no value."""
        indptr = np.append(self.pairs.indptr, np.full(more, self.pairs.indptr[-1]))
        return TextColumn(self.values, Interactions(indptr, self.pairs.items, self.pairs.num_items))

    def put(self, store: codecs.Store, name: str) -> dict[str, Any]:
        """Put the column into a file's arrays and return its configuration."""
        codecs.put_pairs(store, name, PackedHistories.of(self.pairs))
        codecs.put_text(store, f"{name}.values", self.values)
        return {"values": len(self.values), "pairs": self.pairs.num_pairs}

    @classmethod
    def get(cls, store: codecs.Store, name: str, config: dict[str, Any], num_items: int) -> "TextColumn":
        values, pairs = codecs.count(config["values"]), codecs.count(config["pairs"])
        codecs.expect(1 <= values < _MOST_VALUES, f"{name} has too many values")
        texts = codecs.get_text(store, f"{name}.values", values)
        return cls(texts, codecs.get_pairs(store, name, pairs, num_items, values).all())


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """Hold a number of each item, or none."""

    kind: ClassVar[str] = "number"

    levels: NDArray[np.float64]
    """All values there are, ascending."""
    ranks: NDArray[np.integer]
    """The rank of each item's value among them, from 1 on; 0 without one."""

    def __len__(self) -> int:
        return len(self.ranks)

    def equal(self, values: Iterable[Scalar]) -> ItemMask:
        numbers = np.array([_number(value) for value in values], dtype=np.float64)
        nearest = np.minimum(np.searchsorted(self.levels, numbers), len(self.levels) - 1)
        matches = np.zeros(len(self.levels) + 1, dtype=np.bool_)
        matches[nearest[self.levels[nearest] == numbers] + 1] = True
        inside: ItemMask = matches[self.ranks]
        return inside

    def between(self, lowest: float | None, highest: float | None) -> ItemMask:
        first = 1 if lowest is None else int(np.searchsorted(self.levels, _number(lowest), "left")) + 1
        last = len(self.levels) if highest is None else int(np.searchsorted(self.levels, _number(highest), "right"))
        return (self.ranks >= first) & (self.ranks <= last)

    def keys(self, item: int) -> Sequence[int]:
        return [int(self.ranks[item])] if self.ranks[item] else []

    def described(self) -> dict[str, Any]:
        return {"kind": self.kind, "min": float(self.levels[0]), "max": float(self.levels[-1])}

    def longer(self, more: int) -> "NumberColumn":
        return NumberColumn(self.levels, np.append(self.ranks, np.zeros(more, dtype=self.ranks.dtype)))

    def put(self, store: codecs.Store, name: str) -> dict[str, Any]:
        store[f"{name}.levels"] = _narrow(self.levels)
        return {"levels": len(self.levels), **codecs.put_integers(store, f"{name}.ranks", self.ranks)}

    @classmethod
    def get(cls, store: codecs.Store, name: str, config: dict[str, Any], num_items: int) -> "NumberColumn":
        stored = store[f"{name}.levels"]
        codecs.expect(
            stored.dtype.kind in "iuf" and stored.shape == (codecs.count(config["levels"]),),
            f"{name} has the wrong form",
        )
        with np.errstate(invalid="ignore"):  # what is no number is refused below
            levels = stored.astype(np.float64)
        codecs.expect(len(levels) > 0 and bool(np.isfinite(levels).all()), f"{name} has no numbers")
        codecs.expect(bool((np.diff(levels) > 0).all()), f"{name} is not sorted")
        ranks = codecs.get_integers(store, f"{name}.ranks", config, num_items)
        codecs.expect(int(ranks.max(initial=0)) <= len(levels), f"{name} has numbers that are not there")
        return cls(levels, smallest_integers(ranks))


Column = TextColumn | NumberColumn
"""One attribute of every item."""
_KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (TextColumn, NumberColumn)}


@dataclass(frozen=True, eq=False)
class Attributes:
    """Hold all attributes, by name."""

    columns: Mapping[str, Column]

    def column(self, name: str) -> Column:
        if name not in self.columns:
            names = ", ".join(sorted(self.columns)) or "none"
            raise BadRule(f"This model's items have no attribute {name[:100]!r}: they have {names}.")
        return self.columns[name]

    def described(self) -> list[dict[str, Any]]:
        return [{"name": name, **column.described()} for name, column in self.columns.items()]

    def longer(self, more: int) -> "Attributes":
        return Attributes({name: column.longer(more) for name, column in self.columns.items()})

    def put(self, store: codecs.Store) -> list[dict[str, Any]]:
        """Put all columns into a file's arrays and return their configuration."""
        return [
            {"name": name, "kind": column.kind, **column.put(store, f"attributes.{index}")}
            for index, (name, column) in enumerate(self.columns.items())
        ]

    @classmethod
    def get(cls, store: codecs.Store, config: Sequence[dict[str, Any]], num_items: int) -> "Attributes":
        return cls(
            {
                str(entry["name"]): _KINDS[entry["kind"]].get(store, f"attributes.{index}", entry, num_items)
                for index, entry in enumerate(config)
            }
        )


def written(value: Scalar) -> str:
    """Return a value as a text column has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _number(value: Scalar) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (ValueError, OverflowError, TypeError) as error:
        raise BadRule(f"holds numbers, and {str(value)[:50]!r} is none.") from error


def _narrow(levels: NDArray[np.float64]) -> NDArray[np.generic]:
    """Return the same numbers in as few bytes as hold them exactly."""
    if bool((levels == np.rint(levels)).all()) and float(np.abs(levels).max()) < 2**53:
        return smallest_integers(levels.astype(np.int64))
    with np.errstate(over="ignore"):  # what does not fit is seen below
        single = levels.astype(np.float32)
    return single if bool((single == levels).all()) else levels


def text_column(items: NDArray[np.integer], values: Sequence[str], num_items: int) -> TextColumn:
    """Make a column from pairs of item and value, in any order."""
    distinct, indices = np.unique(np.asarray(values, dtype=object), return_inverse=True)
    pairs = Interactions.from_pairs(np.asarray(items), indices.astype(np.int64), num_items, len(distinct))
    return TextColumn(distinct.tolist(), pairs)


def number_column(values: NDArray[np.float64]) -> NumberColumn:
    """Make a column from the value of every item; what is not finite is missing."""
    present = np.isfinite(values)
    levels = np.unique(values[present]) + 0.0  # minus zero is zero
    ranks = np.zeros(len(values), dtype=np.int64)
    ranks[present] = np.searchsorted(levels, values[present]) + 1
    return NumberColumn(levels, smallest_integers(ranks))
