# SPDX-License-Identifier: Apache-2.0
"""Define what the pipeline needs of a source of pairs, whatever its format."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legcf.data.ids import IdMap
from legcf.data.preparing.blocks import Batch


@dataclass(frozen=True, kw_only=True, eq=False)
class PairSource(ABC):
    """Describe a source whose ids have been found, and read its pairs.

    The fields cost nothing. `batches` and `titles` read the source, each time they are called. The `where_…`
    methods find file and line of a pair or an id, for an error message, and may read all of it.
    """

    name: str
    where: str
    """What messages call the source."""
    users: IdMap
    items: IdMap
    num_rows: int
    rated_too_low: int = 0
    """Rows that were left out for their rating; they are not among `num_rows`."""
    num_dislikes: int = 0
    """Rows that are dislikes; they are not among `num_rows`, nor are the next."""
    num_missing: int = 0
    """Rows that were left out, for they lack a value."""
    has_ratings: bool = False
    has_test: bool = False
    has_weights: bool = False
    merge_duplicates: bool = True
    times: str | None = None
    """How times were written, if they are used."""

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """Yield all pairs, in positions of `users` and `items`, in any order; weighed where options ask for it."""

    def weighed_at(self) -> float | None:
        """Return the time from which ages are counted back, where older rows count less."""
        return None

    def dislikes(self) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
        """Return users and items of dislikes, in positions; None where the options know none."""
        return None

    def titles(self, items: IdMap) -> list[str] | None:
        """Return a title for each of these items, or None where nothing names them."""
        return None

    def where_pair(self, user: int, item: int) -> str:
        """Say where a pair is, by its positions."""
        return f"{self.where}: item {self.items.values[item]} of user {self.users.values[user]}"

    def where_cold(self, cold_users: NDArray[np.bool_], cold_items: NDArray[np.bool_]) -> str:
        """Say where the first of these users and items without train pairs is."""
        return self.where
