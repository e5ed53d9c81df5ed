# SPDX-License-Identifier: Apache-2.0
"""Map the ids people use to the contiguous integers everything inside works on, and back."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import LongArray
from legcf.core.errors import UserError

ExternalId = int | str
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}")


@dataclass(frozen=True)
class IdMap:
    """Hold external ids in index order: the id at position p belongs to entity p.

    Integers are kept as int64 or uint64, text as an object array of str, so an id comes back exactly as it went in.
    `kind` names the entity in error messages ("user" or "item").
    """

    values: NDArray[np.generic]
    kind: str = "entity"

    @classmethod
    def of(cls, ids: Sequence[ExternalId] | NDArray[np.generic], kind: str = "entity") -> "IdMap":
        """Build from ids that are all whole numbers of 64 bits or all text; others are refused."""
        array = np.asarray(ids)
        if array.dtype.kind not in "iu":
            array = _checked(np.asarray(ids, dtype=object), kind)
        return cls(array if array.dtype in (np.uint64, object) else array.astype(np.int64), kind)

    @classmethod
    def consecutive(cls, count: int, kind: str = "entity") -> "IdMap":
        return cls(np.arange(count, dtype=np.int64), kind)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_text(self) -> bool:
        return self.values.dtype == object

    @cached_property
    def _first(self) -> int | None:
        """Return the first id where each is one more than that before it; else None."""
        values: NDArray[Any] = self.values
        if self.is_text or not len(self) or int(values[-1]) - int(values[0]) != len(self) - 1:
            return None
        return int(values[0]) if bool((values[1:] - values[:-1] == 1).all()) else None

    @cached_property
    def _dictionary(self) -> dict[ExternalId, int]:
        return {identifier: position for position, identifier in enumerate(self.values.tolist())}

    def _position(self, identifier: ExternalId) -> int | None:
        """Return the position by subtraction where ids count up, for a dictionary takes a hundred bytes for each; by a
        dictionary otherwise, ten times as fast as a bisection."""
        if self._first is None:
            return self._dictionary.get(identifier)
        position = int(identifier) - self._first
        return position if 0 <= position < len(self) else None

    def find(self, identifier: ExternalId) -> int | None:
        """Return the position of an id, or None. "42" finds the integer 42, since a shell only knows text; other
        spellings ("042", "+42", "4_2") are other ids."""
        if isinstance(identifier, bool) or not isinstance(identifier, int | str | np.integer):
            return None
        if isinstance(identifier, str) and not self.is_text:
            number = integer_id(identifier)
            return None if number is None else self._position(number)
        return self._position(str(identifier) if self.is_text else int(identifier))

    def find_all(self, ids: "IdMap") -> LongArray:
        """Return the position in this map of every id of another, −1 where it is absent."""
        positions = (self.find(identifier) for identifier in ids.values.tolist())
        return np.fromiter((-1 if one is None else one for one in positions), dtype=np.int64, count=len(ids))

    def position(self, identifier: ExternalId) -> int:
        position = self.find(identifier)
        if position is None:
            example = ", ".join(repr(value) for value in self.values[:3].tolist())
            raise UserError(f"Unknown {self.kind} id {identifier!r}: ids of this model look like {example}.")
        return position

    def positions(self, identifiers: Iterable[ExternalId]) -> NDArray[np.int32]:
        return np.array([self.position(identifier) for identifier in identifiers], dtype=np.int32)

    def external(self, positions: NDArray[np.integer] | Sequence[int]) -> list[ExternalId]:
        identifiers: list[ExternalId] = self.values[np.asarray(positions, dtype=np.int64)].tolist()
        return identifiers

    def with_later(self, later: Sequence[ExternalId]) -> "IdMap":
        """Return these ids at their positions, then `later` in sorted order.

        Where the kinds differ all become text, as when several files are read together. An integer beyond 64 bits is
        refused.
        """
        if not later:
            return self
        earlier: list[ExternalId] = self.values.tolist()
        if self.is_text or any(isinstance(one, str) for one in later):
            return IdMap.of([*map(str, earlier), *sorted(map(str, later))], self.kind)
        return IdMap.of([*earlier, *sorted(later, key=int)], self.kind)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return plain arrays for a file without pickle: integers as they are, text as UTF-8 bytes and offsets."""
        if not self.is_text:
            return {"values": self.values}
        return text_to_arrays(self.values.tolist())

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]], kind: str = "entity") -> "IdMap":
        if "values" in arrays:
            return cls(arrays["values"], kind)
        return cls(np.asarray(text_from_arrays(arrays), dtype=object), kind)


def integer_id(text: str) -> int | None:
    """Return the 64-bit integer that a text spells as Python writes it, or None ("010", "+1", "1_0", " 1", 10**22)."""
    number = int(text) if _CANONICAL_INTEGER.fullmatch(text) else None
    return None if number is None or not -(2**63) <= number < 2**64 else number


def as_typed(ids: Sequence[ExternalId], is_text: bool) -> Sequence[ExternalId]:
    """Return ids as numbers if those of the model are (not `is_text`) and all of these are too, as text otherwise."""
    texts = [str(one) for one in ids]
    numbers = [integer_id(one) for one in texts]
    spelled = [one for one in numbers if one is not None]
    return texts if is_text or len(spelled) < len(texts) else spelled


def _checked(ids: NDArray[np.object_], kind: str) -> NDArray[np.generic]:
    types = {type(one) for one in ids.tolist()}
    if all(issubclass(one, str) for one in types):
        return ids
    if bool in types or not all(issubclass(one, int | np.integer) for one in types):
        wrong = next((one for one in ids.tolist() if type(one) is bool or not isinstance(one, int | np.integer)), None)
        raise UserError(f"Ids of {kind}s must be all whole numbers or all text, and {wrong!r} is among others.")
    low, high = int(min(ids)), int(max(ids))
    if high < 2**63 and low >= -(2**63):
        return ids.astype(np.int64)
    if low >= 0 and high < 2**64:
        return ids.astype(np.uint64)
    wrong = high if high >= 2**63 else low
    raise UserError(f"The {kind} id {wrong} does not fit: whole numbers have at most 64 bits, longer ids must be text.")


def text_to_arrays(texts: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return {"text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "offsets": offsets}


def text_from_arrays(arrays: dict[str, NDArray[np.generic]]) -> list[str]:
    blob = arrays["text"].tobytes()
    bounds = arrays["offsets"].tolist()
    return [blob[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]
