# SPDX-License-Identifier: Apache-2.0
"""Show everybody what most people have (popularity): what any model has to better."""

from typing import Literal

import numpy as np

from legcf.core.config import MethodConfig
from legcf.data.interactions import Interactions
from legcf.embeddings.baselines.rowless import Rowless


class MostPopularConfig(MethodConfig):
    name: Literal["popularity"] = "popularity"


class MostPopular(Rowless[MostPopularConfig]):
    """Score item i by how many users have it."""

    Config = MostPopularConfig
    summary = "the items that most people have, the same for everybody"
    citation = "Cremonesi et al., Performance of Recommender Algorithms on Top-N Recommendation Tasks, RecSys 2010"

    def __init__(self, config: MostPopularConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.arrays["item_bias"] = np.zeros(num_items, np.float32)

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        self.arrays["item_bias"][...] = train.item_degrees

    def num_params(self) -> int:
        """Count one number per item."""
        return self.num_items
