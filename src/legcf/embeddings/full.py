"""The full table, one free vector an entity: the reference that every compression is compared with (the paper's UD)."""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn

from legcf.assignment.dictionary import balance
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, Row, normal, xavier_uniform
from legcf.embeddings.budget import Budgeted, stored_values, too_small
from legcf.embeddings.presets import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf.factorisation.als import AlsSettings, factorise


class FullTableConfig(Budgeted):
    name: Literal["full"] = "full"
    dim: int = Field(64, ge=1, description="width of the table, unless a budget decides it")
    initial: Literal["normal", "xavier", "als"] = Field(
        "normal", description="N(0, 0.1²) as LightGCN's code, Xavier, or the vectors of a factorisation"
    )
    als: AlsSettings = Field(AlsSettings(), description="settings of that factorisation")
    score_scale: float = Field(10.0, gt=0, description="multiplies the factorisation's scores, for the softmax")


class FullTable(EmbeddingLayer[FullTableConfig]):
    """E0 = W ∈ R^{N×d}."""

    Config = FullTableConfig
    summary = "one free vector an entity, the uncompressed reference"
    citation = "He et al., LightGCN, SIGIR 2020"
    table_rows: ClassVar[dict[str, Row]] = {
        f"ud-{dim}": Row(f"UD, {dim} wide", "full table", False, {"method": {"dim": dim}}, reference=True)
        for dim in (128, 64)
    }
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # LightGCN's release: one negative, batches of 2048, λ = 1e-4 with a ½ (so 5e-5 here).
        "official": {
            "training": {"negatives": 1, "order": "user", "batch_size": 2048, "l2": 5e-5, "learning_rate": 1e-3}
        },
        # The paper's loop around a table of 128.
        "paper": {"method": {"dim": 128, "initial": "xavier"}, "training": {"batch_size": 410, "monitor": "ndcg@5"}},
        # From a factorisation, so that few epochs are enough; every step propagates over the whole graph.
        "default": {
            "method": {"initial": "als"},
            "training": {
                **DEFAULT_TRAINING, "learning_rate": 0.05, "relative_rate": True, "epochs": 4, "user_power": 0.5,
            },
            "ranking": DEFAULT_RANKING,
        },
    }  # fmt: skip

    def __init__(self, config: FullTableConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.weight = nn.Parameter(torch.zeros(self.num_entities, self.config.dim))

    @classmethod
    def sized(cls, config: FullTableConfig, num_users: int, num_items: int) -> FullTableConfig:
        entities = num_users + num_items
        if config.budget is None:
            return config
        allowed = stored_values(config.budget, entities)
        if allowed < entities:
            raise too_small(allowed, entities)
        return config.model_copy(update={"dim": allowed // entities})

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        shape = (self.weight.shape[0], self.weight.shape[1])
        if self.config.initial == "als":
            drawn = self._factorised(train, rng)
        else:
            drawn = xavier_uniform(shape, rng) if self.config.initial == "xavier" else normal(shape, 0.1, rng)
        self.weight.data.copy_(drawn)

    def _factorised(self, train: Interactions, rng: np.random.Generator) -> torch.Tensor:
        users, items = factorise(train, self.config.dim, rng, self.config.als)
        users, items, _ = balance(users, items, power=0.5)
        return torch.from_numpy(np.vstack([users, items]) * np.float32(self.config.score_scale) ** 0.5)

    def table(self) -> torch.Tensor:
        return self.weight

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self.weight[ids]
