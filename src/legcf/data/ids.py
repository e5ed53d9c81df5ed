# SPDX-License-Identifier: Apache-2.0
"""The one map between the ids people use and the contiguous integers everything inside works on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError

ExternalId = int | str


@dataclass(frozen=True)
class IdMap:
    """External ids in index order: the id at position p belongs to entity p.

    Integers are kept as int64 or uint64, everything else as text, so an id comes back exactly as it went in.
    `kind` names the entity in error messages ("user" or "item").
    """

    values: NDArray[np.generic]
    kind: str = "entity"

    @classmethod
    def of(cls, ids: Sequence[ExternalId] | NDArray[np.generic], kind: str = "entity") -> "IdMap":
        array = np.asarray(ids)
        if array.dtype.kind not in "iu":
            array = np.asarray(ids, dtype=object)
        elif array.dtype != np.uint64:
            array = array.astype(np.int64)
        return cls(array, kind)

    @classmethod
    def consecutive(cls, count: int, kind: str = "entity") -> "IdMap":
        return cls(np.arange(count, dtype=np.int64), kind)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_text(self) -> bool:
        return self.values.dtype == object

    @cached_property
    def _position(self) -> dict[ExternalId, int]:
        return {identifier: position for position, identifier in enumerate(self.values.tolist())}

    def find(self, identifier: ExternalId) -> int | None:
        """Position of an id, or None. Text such as "42" finds the integer 42, since a shell only knows text."""
        position = self._position.get(identifier)
        if position is None and not self.is_text and isinstance(identifier, str):
            try:
                position = self._position.get(int(identifier))
            except ValueError:
                return None
        elif position is None and self.is_text and isinstance(identifier, int):
            position = self._position.get(str(identifier))
        return position

    def position(self, identifier: ExternalId) -> int:
        position = self.find(identifier)
        if position is None:
            example = ", ".join(repr(value) for value in self.values[:3].tolist())
            raise UserError(f"Unknown {self.kind} id {identifier!r}: ids of this model look like {example}.")
        return position

    def positions(self, identifiers: Iterable[ExternalId]) -> NDArray[np.int32]:
        return np.array([self.position(identifier) for identifier in identifiers], dtype=np.int32)

    def external(self, positions: NDArray[np.integer] | Sequence[int]) -> list[ExternalId]:
        chosen: list[ExternalId] = self.values[np.asarray(positions, dtype=np.int64)].tolist()
        return chosen

    def with_later(self, later: Sequence[ExternalId]) -> "IdMap":
        """These ids in their places, then others in sorted order; where the kinds differ all become text, as when
        several files are read together."""
        if not later:
            return self
        known: list[ExternalId] = self.values.tolist()
        if self.is_text or any(isinstance(one, str) for one in later):
            return IdMap.of([*map(str, known), *sorted(map(str, later))], self.kind)
        return IdMap.of([*known, *sorted(later, key=int)], self.kind)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Plain arrays for a file without pickle: integers as they are, text as UTF-8 bytes and offsets."""
        if not self.is_text:
            return {"values": self.values}
        return text_to_arrays(self.values.tolist())

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]], kind: str = "entity") -> "IdMap":
        if "values" in arrays:
            return cls(arrays["values"], kind)
        return cls(np.asarray(text_from_arrays(arrays), dtype=object), kind)


def text_to_arrays(texts: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    lengths = np.fromiter((len(part) for part in encoded), dtype=np.int64, count=len(encoded))
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return {"text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "offsets": offsets}


def text_from_arrays(arrays: dict[str, NDArray[np.generic]]) -> list[str]:
    blob = arrays["text"].tobytes()
    bounds = arrays["offsets"].tolist()
    return [blob[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]
