# SPDX-License-Identifier: Apache-2.0
"""Score an item by the few items most like it (item-based neighbours).

    score(u, i) = Σ_{j ∈ N(u) ∩ C_i} Σ_{v has i and j} d_v^−p / √(d_i d_j)

C_i are the k items most like i. With p = 0 the likeness is the cosine of the two items' columns; with p = 1 long
histories, which prove little, count less: two steps over the normalised graph.
"""

from typing import Any, ClassVar, Literal

from pydantic import Field

from legcf.core.config import MethodConfig
from legcf.data.interactions import Interactions
from legcf.embeddings.baselines.rowless import ROWLESS_SETTINGS, Rowless
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.ridge import nearest_lists


class ItemKnnConfig(MethodConfig):
    name: Literal["item-knn"] = "item-knn"
    neighbours: int = Field(100, ge=1, description="k, items that speak for an item: those most like it")
    user_power: float = Field(1.0, ge=0, description="p: a user weighs its degree to minus this; 0: plain cosines")


class ItemKnn(Rowless[ItemKnnConfig]):
    Config = ItemKnnConfig
    summary = "items like those a user has, by who else has both; nothing is learned"
    citation = "Deshpande and Karypis, Item-Based Top-N Recommendation Algorithms, TOIS 2004"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {**ROWLESS_SETTINGS, "method": {"user_power": 0.0}},
        "default": ROWLESS_SETTINGS,
    }

    def item_lists(self, train: Interactions) -> ItemLists:
        return nearest_lists(train, self.config.neighbours, self.config.user_power)
