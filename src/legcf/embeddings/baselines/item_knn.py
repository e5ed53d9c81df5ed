# SPDX-License-Identifier: Apache-2.0
"""Score an item by the few items most like it (item-based neighbours).

    score(u, i) = Σ_{j ∈ N(u) ∩ C_i} Σ_{v has i and j} d_v^−p / (√(d_i d_j) + s)

C_i are the k items most like i. With p = 0 and s = 0 the likeness is the cosine of the two items' columns; with p = 1
long histories, which prove little, count less: two steps over the normalised graph. The shrinkage s takes from the
likeness of items that few have: by themselves, two that share their only user are as alike as can be.
"""

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from legcf.core.config import MethodConfig, RunConfig
from legcf.core.hill_climb import climb
from legcf.core.random_streams import fixed_generator
from legcf.data.interactions import Dataset, Interactions
from legcf.embeddings.baselines.rowless import ROWLESS_SETTINGS, Rowless
from legcf.embeddings.search_space import OneOf, Space
from legcf.evaluation.evaluate import evaluate, sample_eval_users
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.ridge import nearest_lists
from legcf.ranking.ranking import Ranking

# Users of a pair of items, about, and the bounds of the search. Test NDCG@20 of LastFM with 0, 3, 10, 30, 100 and 300:
# 0.1399, 0.1580, 0.1670, 0.1641, 0.1527 and 0.1456.
_FIRST_SHRINKAGE, _LEAST_SHRINKAGE, _MOST_SHRINKAGE = 10.0, 1.0, 1000.0
_STEP = 10**0.5  # factor between two shrinkages that are tried; finer ones were not measured
_EVAL_USERS = 2000  # whom a shrinkage is chosen by; not measured
_HELD_OUT = 0.2  # of everyone's training pairs, where there is no validation; on LastFM 0.1 chooses the same


class ItemKnnConfig(MethodConfig):
    name: Literal["item-knn"] = "item-knn"
    neighbours: int = Field(100, ge=1, description="k, items that speak for an item: those most like it")
    user_power: float = Field(1.0, ge=0, description="p: a user weighs its degree to minus this; 0: plain cosines")
    shrinkage: float | None = Field(
        None, ge=0, description="s, taken from the likeness of items that few have; chosen on held-out pairs if null"
    )


class ItemKnn(Rowless[ItemKnnConfig]):
    Config = ItemKnnConfig
    version = 2  # likeness is shrunk
    summary = "items like those a user has, by who else has both; nothing is learned"
    citation = "Deshpande and Karypis, Item-Based Top-N Recommendation Algorithms, TOIS 2004"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {**ROWLESS_SETTINGS, "method": {"user_power": 0.0, "shrinkage": 0.0}},
        "default": ROWLESS_SETTINGS,
    }

    @classmethod
    def chosen(cls, config: ItemKnnConfig, dataset: Dataset) -> ItemKnnConfig:
        """Choose the shrinkage by NDCG@20 of validation pairs; without any, of training pairs that are held out."""
        if config.shrinkage is not None:
            return config
        if not dataset.validation.num_pairs:
            dataset = dataset.holding_out(_HELD_OUT, fixed_generator())
        return _best(config, dataset)[0]

    @classmethod
    def search_space(cls, method: ItemKnnConfig, config: RunConfig) -> Space:
        return {"method.neighbours": OneOf((25, 50, 100, 200)), "method.user_power": OneOf((0.0, 0.5, 1.0))}

    def item_lists(self, train: Interactions) -> ItemLists:
        return _lists(self.config, train)


def chosen_ranking(dataset: Dataset) -> Ranking:
    """Return what ranks by the neighbours in the training pairs, with the usual settings and the best shrinkage."""
    if dataset.validation.num_pairs:
        return _best(ItemKnnConfig(), dataset)[1]
    return item_knn_ranking(ItemKnn.chosen(ItemKnnConfig(), dataset), dataset.train)


def _best(config: ItemKnnConfig, dataset: Dataset) -> tuple[ItemKnnConfig, Ranking]:
    """Return the settings with the shrinkage that validation prefers, and their ranking."""
    truth = dataset.validation
    users = sample_eval_users(truth, _EVAL_USERS, seed=0)
    best: tuple[float, ItemKnnConfig, Ranking] | None = None

    def score(shrinkage: float) -> float:
        nonlocal best
        trial = config.model_copy(update={"shrinkage": round(shrinkage, 3)})
        ranking = item_knn_ranking(trial, dataset.train)
        ndcg = evaluate(ranking, truth, (20,), users, ("ndcg",))["ndcg@20"]
        if best is None or ndcg > best[0]:
            best = ndcg, trial, ranking
        return ndcg

    climb(score, _FIRST_SHRINKAGE, _LEAST_SHRINKAGE, _MOST_SHRINKAGE, _STEP)
    assert best is not None
    return best[1:]


def item_knn_ranking(config: ItemKnnConfig, train: Interactions) -> Ranking:
    """Return what ranks by the neighbours in these pairs."""
    nobody, nothing = np.zeros((train.num_users, 1), np.float32), np.zeros((train.num_items, 1), np.float32)
    return Ranking(nobody, nothing, train, lists=_lists(config, train))


def _lists(config: ItemKnnConfig, train: Interactions) -> ItemLists:
    return nearest_lists(train, config.neighbours, config.user_power, config.shrinkage or 0.0)
