# SPDX-License-Identifier: Apache-2.0
"""Factorise the matrix of pairs by alternating least squares: a vector for every user and item, and no graph."""

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from legcf.assignment.dictionary import balance
from legcf.core.arrays import FloatArray
from legcf.core.config import RunConfig
from legcf.data.interactions import Interactions
from legcf.embeddings.budget import Budgeted, width_within
from legcf.embeddings.layer import SolvedLayer
from legcf.embeddings.search_space import FACTORISATION, OneOf, Space, common_space
from legcf.factorisation.als import AlsSettings, factorise

_ALONE: dict[str, Any] = {"backbone": {"name": "lightgcn", "layers": 0}, "training": {"epochs": 0}}


class AlsConfig(Budgeted):
    name: Literal["als"] = "als"
    dim: int = Field(128, ge=1, description="width of a vector, unless a budget decides it")
    als: AlsSettings = Field(AlsSettings(), description="settings of the factorisation")


class Als(SolvedLayer[AlsConfig]):
    """Hold E = [U; V], V and U each the ridge regression on the other."""

    Config = AlsConfig
    summary = "matrix factorisation by alternating least squares, popular entities weighing less"
    citation = "Hu et al., Collaborative Filtering for Implicit Feedback Datasets, ICDM 2008"
    learned = ("weight",)
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # All pairs weigh the same, α = 40 and ten rounds.
        "paper": {**_ALONE, "method": {"als": {"alpha": 40.0, "degree_power": 0.0, "rounds": 10}}},
        "default": _ALONE,
    }

    def __init__(self, config: AlsConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.arrays["weight"] = np.zeros((self.num_entities, self.config.dim), np.float32)

    @classmethod
    def sized(cls, config: AlsConfig, num_users: int, num_items: int) -> AlsConfig:
        entities = num_users + num_items
        return config.model_copy(update={"dim": width_within(config.budget, entities, entities, config.dim)})

    @classmethod
    def search_space(cls, method: AlsConfig, config: RunConfig) -> Space:
        width: Space = {} if method.budget else {"method.dim": OneOf((32, 64, 128))}
        return {**common_space(config), **FACTORISATION, **width}

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        users, items = factorise(train, self.config.dim, rng, self.config.als)
        self.arrays["weight"][...] = np.vstack(balance(users, items, power=0.5)[:2])

    def table(self) -> FloatArray:
        return self.arrays["weight"]
