# SPDX-License-Identifier: Apache-2.0
"""Define methods that rank without vectors: by lists of items, or by a count alone.

Everybody shares one row, which is zero and stays so. Users are their histories, so a model file holds none of them.
"""

from typing import Any, ClassVar, TypeVar

import numpy as np

from legcf.assignment.assignment import Assignment
from legcf.core.arrays import FloatArray
from legcf.core.config import MethodConfig
from legcf.data.interactions import Interactions
from legcf.embeddings.layer import SolvedLayer
from legcf.ranking.ranking import Codes

R = TypeVar("R", bound=MethodConfig)

ROWLESS_SETTINGS: dict[str, Any] = {"backbone": {"name": "history"}, "training": {"epochs": 0}}
"""What the presets of such methods share."""


class Rowless(SolvedLayer[R]):
    """Rank by `item_lists` or `item_bias`; a model without any row of its own."""

    learned = ("shared", "item_bias")
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": ROWLESS_SETTINGS, "default": ROWLESS_SETTINGS}

    def __init__(self, config: R, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.arrays["shared"] = np.zeros((1, 1), np.float32)

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        """Do nothing: the row that everybody shares is zero."""

    def table(self) -> FloatArray:
        return np.broadcast_to(self.arrays["shared"], (self.num_entities, 1))

    def item_codes(self) -> Codes:
        no_weights = Assignment(np.zeros((self.num_items, 1), np.int32), np.zeros((self.num_items, 1), np.float32), 1)
        return Codes(self.arrays["shared"], no_weights)

    def num_params(self) -> int:
        return 0
