# SPDX-License-Identifier: Apache-2.0
"""Hold one free vector an entity: the reference that every compression is compared with (the paper's UD)."""

from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from legcf.assignment.dictionary import balance
from legcf.core.arrays import FloatArray, Positions
from legcf.core.config import RunConfig
from legcf.data.interactions import Interactions
from legcf.embeddings.budget import Budgeted, width_within
from legcf.embeddings.layer import Layer, SolvedLayer, normal_values, xavier_values
from legcf.embeddings.search_space import FACTORISATION, Space, common_space
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.averaged import averaged_items
from legcf.factorisation.history_vectors import history_items
from legcf.factorisation.spectral import singular_vectors

# What trains well in minutes on two cores: a softmax over directions, its negatives shared by a large batch, so that
# few steps see many of them; half of a vector's length, in powers, counts in ranking (docs/study.md).
DEFAULT_TRAINING: dict[str, Any] = {
    "loss": "cosine", "temperature": 0.1, "negatives": 512, "batch_size": 8192,
    "learning_rate": 1e-2, "epochs": 20, "patience": 3, "schedule": "cosine", "validation_users": 10_000,
}  # fmt: skip
DEFAULT_RANKING: dict[str, Any] = {"norm_power": 0.5}


class FullTableConfig(Budgeted):
    name: Literal["full"] = "full"
    dim: int = Field(64, ge=1, description="width of the table, unless a budget decides it")
    rows: Literal["all", "items"] = Field(
        "all", description="who has a vector of its own; with items, users are what the graph brings them"
    )
    initial: Literal["normal", "xavier", "als", "spectral"] = Field(
        "normal",
        description="N(0, 0.1²) as LightGCN's code, Xavier, a factorisation, singular vectors (rows = items)",
    )
    popularity_power: float = Field(0.5, description="singular vectors are multiplied by item degree to this power")
    als: AlsSettings = Field(AlsSettings(), description="settings of that factorisation")
    factorisations: int = Field(
        1, ge=1, description="how many, with α from half to twice that of the settings, are averaged (rows = items)"
    )
    score_scale: float = Field(10.0, gt=0, description="multiplies the factorisation's scores, for the softmax")

    @model_validator(mode="after")
    def _items_have_singular_vectors(self) -> "FullTableConfig":
        if self.initial == "spectral" and self.rows != "items":
            raise ValueError("initial = spectral gives vectors to items alone; set rows = items")
        return self

    @model_validator(mode="after")
    def _items_are_averaged(self) -> "FullTableConfig":
        if self.factorisations > 1 and (self.initial, self.rows) != ("als", "items"):
            raise ValueError("several factorisations are averaged for items alone; set initial = als and rows = items")
        return self


class TableLayer(Layer[FullTableConfig]):
    """Hold the full table, E0 = W ∈ R^{N×d}: all but how."""

    Config = FullTableConfig
    summary = "one free vector an entity, the uncompressed reference"
    citation = "He et al., LightGCN, SIGIR 2020"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # LightGCN's release: one negative, batches of 2048, λ = 1e-4 with a ½ (so 5e-5 here).
        "official": {
            "training": {"negatives": 1, "order": "user", "batch_size": 2048, "l2": 5e-5, "learning_rate": 1e-3}
        },
        # The paper's loop around a table of 128.
        "paper": {"method": {"dim": 128, "initial": "xavier"}, "training": {"batch_size": 410, "monitor": "ndcg@5"}},
        # Vectors for items alone, as they are found; users as their histories. A model file packs them into few bits.
        "items": {
            "method": {"rows": "items", "initial": "als", "dim": 128, "score_scale": 1.0},
            "backbone": {"name": "history"},
            "training": {"epochs": 0},
        },
        # From a factorisation, so that few epochs are enough; every step propagates over the whole graph.
        "default": {
            "method": {"initial": "als"},
            "training": {
                **DEFAULT_TRAINING, "learning_rate": 0.05, "scale_lr_by_rms": True, "epochs": 4, "user_power": 0.5,
            },
            "ranking": DEFAULT_RANKING,
        },
    }  # fmt: skip

    @property
    def first(self) -> int:
        """Return the first entity with a row of its own."""
        return self.num_users if self.config.rows == "items" else 0

    @classmethod
    def sized(cls, config: FullTableConfig, num_users: int, num_items: int) -> FullTableConfig:
        rows = num_items if config.rows == "items" else num_users + num_items
        return config.model_copy(update={"dim": width_within(config.budget, rows, num_users + num_items, config.dim)})

    @classmethod
    def search_space(cls, method: FullTableConfig, config: RunConfig) -> Space:
        return {**common_space(config), **(FACTORISATION if method.initial == "als" else {})}

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        initial, rows = self.config.initial, self.array("weight")
        if self.config.factorisations > 1:
            self.initialise_items(averaged_items(train, rng, self.config.als, self.config.factorisations))
        elif initial == "als":
            self.initialise_from(*factorise(train, self.config.dim, rng, self.config.als), train, rng)
        elif initial == "spectral":
            vectors = singular_vectors(train, self.config.dim, rng)
            scale = np.maximum(train.item_degrees, 1) ** self.config.popularity_power
            rows[...] = _fitted((vectors * scale[:, None]).astype(np.float32), self.config.dim)
        else:
            shape = (len(rows), self.config.dim)
            rows[...] = xavier_values(shape, rng) if initial == "xavier" else normal_values(shape, 0.1, rng)

    @property
    def start_factorisation(self) -> AlsSettings | None:
        return self.config.als if self.config.initial == "als" else None

    @property
    def start_factorisations(self) -> int:
        return self.config.factorisations

    def initialise_items(self, items: FloatArray) -> None:
        """Take the first columns of these vectors as rows."""
        found = _fitted(items, self.config.dim)
        self.array("weight")[...] = found * np.float32(self.config.score_scale) ** 0.5

    def initialise_from(
        self, users: FloatArray, items: FloatArray, train: Interactions, rng: np.random.Generator
    ) -> None:
        """Take these vectors as rows, or those of items that act like them for sums over histories."""
        items_only = self.config.rows == "items"
        found = history_items(train, users, items) if items_only else np.vstack(balance(users, items, 0.5)[:2])
        self.array("weight")[...] = found * np.float32(self.config.score_scale) ** 0.5

    @property
    def als_settings(self) -> AlsSettings:
        return self.config.als

    def take_items(self, other: Self, changed: Positions, vectors: FloatArray) -> None:
        if self.config.rows != "items":
            super().take_items(other, changed, vectors)
            return
        self.array("weight")[: other.num_items] = other.array("weight")
        self.array("weight")[changed] = vectors


class SolvedTable(TableLayer, SolvedLayer[FullTableConfig]):
    """Hold the table as it is found, where it is never trained."""

    learned = ("weight",)

    def __init__(self, config: FullTableConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.arrays["weight"] = np.zeros((self.num_entities - self.first, self.config.dim), dtype=np.float32)

    @property
    def width(self) -> int:
        return self.config.dim

    def table(self) -> FloatArray:
        return np.pad(self.array("weight"), ((self.first, 0), (0, 0)))

    def item_rows(self) -> FloatArray:
        return self.array("weight")[self.num_users - self.first :]


def _fitted(vectors: FloatArray, width: int) -> FloatArray:
    """Return the first columns, or zeros after them."""
    kept = vectors[:, :width]
    return np.pad(kept, ((0, 0), (0, width - kept.shape[1])))
