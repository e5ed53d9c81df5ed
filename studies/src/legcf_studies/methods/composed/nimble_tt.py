# SPDX-License-Identifier: Apache-2.0
"""Write the table as a tensor train of three cores, entities in the order of their communities (NimbleTT).

Yin et al., "TT-Rec", MLSys 2021; Yin et al., "Nimble GNN Embedding with Tensor-Train Decomposition", KDD 2022. With
p1·p2·p3 ≥ N and q1·q2·q3 = d, the digits (i1, i2, i3) of an entity's rank in the order pick a matrix of each core, and
its row is their product: e[j1, j2, j3] = Σ_{a,b} G1[i1, j1, a] · G2[a, i2, j2, b] · G3[b, i3, j3].
"""

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import nn

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, normal
from legcf.embeddings.budget import Budgeted, solved, stored_values, too_small
from legcf.graph.adjacency import bipartite
from legcf.graph.partition import communities
from legcf_studies.methods.common import PLAIN_PRESETS, ComparisonRow, ensure_within

_ROW_DEVIATION = 0.1  # of an entry at the start, as in LightGCN's table
Shape = tuple[int, int, int]


class NimbleTtConfig(Budgeted):
    name: Literal["nimble-tt"] = "nimble-tt"
    dim: int = Field(128, ge=1, description="width of a row")
    rank: int | None = Field(None, ge=1, description="rank of the cores; as large as the budget allows if null")
    row_shape: list[int] | None = Field(None, description="p1, p2, p3 with a product of N or more; near a cube if null")
    column_shape: list[int] | None = Field(None, description="q1, q2, q3 with the product dim; balanced if null")
    order: Literal["communities", "given"] = Field(
        "communities", description="neighbours in the graph side by side (METIS), or entities as they are numbered"
    )
    initial: Literal["auto", "orthogonal", "normal"] = Field(
        "auto", description="cores whose table has orthonormal columns, or normal ones; auto: orthogonal where possible"
    )

    @model_validator(mode="after")
    def _shapes(self) -> "NimbleTtConfig":
        for name, shape in (("row_shape", self.row_shape), ("column_shape", self.column_shape)):
            if shape is not None and (len(shape) != 3 or min(shape) < 1):
                raise ValueError(f"{name} = {shape} is not three positive numbers")
        if self.column_shape is not None and np.prod(self.column_shape) != self.dim:
            raise ValueError(f"column_shape = {self.column_shape} does not multiply to dim = {self.dim}")
        return self


class NimbleTT(EmbeddingLayer[NimbleTtConfig]):
    Config = NimbleTtConfig
    summary = "a tensor train of three cores, entities ordered by community"
    citation = "Yin et al., Nimble GNN Embedding with Tensor-Train Decomposition, KDD 2022"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {"nimble-tt": ComparisonRow("NimbleTT", "one size")}
    presets: ClassVar[dict[str, dict[str, Any]]] = PLAIN_PRESETS

    order: torch.Tensor

    def __init__(self, config: NimbleTtConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.row_shape, self.column_shape = _shape(self.config.row_shape), _shape(self.config.column_shape)
        (p1, p2, p3), (q1, q2, q3) = self.row_shape, self.column_shape
        r1, r2 = _ranks(self.config)
        self.first = nn.Parameter(torch.zeros(p1, q1, r1))
        self.second = nn.Parameter(torch.zeros(r1, p2, q2, r2))
        self.third = nn.Parameter(torch.zeros(r2, p3, q3))
        self.register_buffer("order", torch.arange(self.num_entities, dtype=torch.int32))

    @classmethod
    def sized(cls, config: NimbleTtConfig, num_users: int, num_items: int) -> NimbleTtConfig:
        entities = num_users + num_items
        rows = config.row_shape or near_cube(entities)
        if np.prod(rows) < entities:
            raise UserError(
                f"method.row_shape = {rows} holds {np.prod(rows)} of the {entities} users and items; raise it."
            )
        columns = config.column_shape or balanced_factors(config.dim)
        config = config.model_copy(update={"row_shape": rows, "column_shape": columns})
        if config.rank is None:
            allowed = stored_values(config.budget or "legcf", entities)
            config = config.model_copy(update={"rank": 1})
            if _values(config) > allowed:
                raise too_small(allowed, _values(config))
            for rank in range(2, max(_most_useful_ranks(config)) + 1):
                larger = config.model_copy(update={"rank": rank})
                if _values(larger) > allowed:
                    break
                config = larger
        ensure_within(config.budget, entities, _values(config))
        return config

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        if self.config.order == "communities":
            self.order.copy_(torch.from_numpy(self._community_order(train, rng)))
        (p1, p2, p3), (q1, q2, q3) = self.row_shape, self.column_shape
        r1, r2 = _ranks(self.config)
        initial, possible = self.config.initial, r2 * q3 <= p3 and r1 * q2 <= p2 * r2 and q1 <= p1 * r1
        if initial == "orthogonal" and not possible:
            raise UserError(
                f"method.initial = orthogonal is not possible with rank {self.config.rank}, row_shape"
                f" {list(self.row_shape)} and column_shape {list(self.column_shape)}; lower the rank or use auto."
            )
        if initial != "normal" and possible:
            self._draw_orthogonal(rng)
        else:
            deviation = (_ROW_DEVIATION**2 / (r1 * r2)) ** (1 / 6)
            for core in self.parameters():
                core.data.copy_(normal(tuple(core.shape), deviation, rng))

    def padded(self) -> torch.Tensor:
        """Return all p1·p2·p3 rows, in the order of the train."""
        (p1, p2, p3), (q1, q2, q3) = self.row_shape, self.column_shape
        r1, r2 = _ranks(self.config)
        left = self.first.reshape(p1 * q1, r1) @ self.second.reshape(r1, p2 * q2 * r2)
        every = left.reshape(p1 * q1 * p2 * q2, r2) @ self.third.reshape(r2, p3 * q3)
        return every.reshape(p1, q1, p2, q2, p3, q3).permute(0, 2, 4, 1, 3, 5).reshape(p1 * p2 * p3, q1 * q2 * q3)

    def table(self) -> torch.Tensor:
        return nn.functional.embedding(self.order, self.padded())

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Multiply the cores of these digits alone, the first and second once for each pair that occurs."""
        _, p2, p3 = self.row_shape
        rank = self.order[ids].long()
        pairs, pair_of = torch.unique(rank // p3, return_inverse=True)
        second = self.second.permute(1, 0, 2, 3).flatten(2)[pairs % p2]
        left = (self.first[pairs // p2] @ second).reshape(len(pairs), -1, len(self.third))
        return (left[pair_of] @ self.third.permute(1, 0, 2)[rank % p3]).flatten(1)

    def pack(self, state: dict[str, torch.Tensor]) -> None:
        if self.config.order == "given":
            del state["order"]

    def unpack(self, state: dict[str, torch.Tensor]) -> None:
        state.setdefault("order", self.order)

    def _community_order(self, train: Interactions, rng: np.random.Generator) -> NDArray[np.int32]:
        """Return the rank of every entity when communities, as many as (i1, i2) has values, are laid out one by one."""
        p1, p2, _ = self.row_shape
        count = max(1, min(p1 * p2, self.num_entities // 2))
        parts = communities(bipartite(train), count, seed=int(rng.integers(2**31)))
        ranks = np.empty(self.num_entities, dtype=np.int32)
        ranks[np.argsort(parts, kind="stable")] = np.arange(self.num_entities, dtype=np.int32)
        return ranks

    def _draw_orthogonal(self, rng: np.random.Generator) -> None:
        """Draw orthonormal columns of the padded table, times what makes its entries as large as LightGCN's."""
        (p1, p2, p3), (q1, q2, q3) = self.row_shape, self.column_shape
        r1, r2 = _ranks(self.config)
        third = _orthonormal(p3, r2 * q3, rng).reshape(p3, r2, q3).permute(1, 0, 2)
        second = _orthonormal(p2 * r2, r1 * q2, rng).reshape(p2, r2, r1, q2).permute(2, 0, 3, 1)
        first = _orthonormal(p1 * r1, q1, rng).reshape(p1, r1, q1).permute(0, 2, 1)
        scale = (_ROW_DEVIATION * (p1 * p2 * p3) ** 0.5) ** (1 / 3)
        for core, drawn in ((self.first, first), (self.second, second), (self.third, third)):
            core.data.copy_(drawn * scale)


def near_cube(entities: int) -> list[int]:
    """Return three numbers as alike as possible, rising, whose product is no less than the entities."""
    p1 = max(1, int(entities ** (1 / 3)))
    while p1**3 > entities and p1 > 1:
        p1 -= 1
    pairs = [(first, second) for first in (p1, p1 + 1) for second in (first, first + 1)]
    candidates = [sorted((first, second, -(-entities // (first * second)))) for first, second in pairs]
    return min(candidates, key=lambda shape: (max(shape) - min(shape), np.prod(shape)))


def balanced_factors(width: int) -> list[int]:
    """Return three factors of the width with the least sum, falling; (8, 4, 4) for 128."""
    divisors = [number for number in range(1, width + 1) if width % number == 0]
    shapes = [[width // (b * c), b, c] for b in divisors for c in divisors if width % (b * c) == 0 and c <= b]
    return min((shape for shape in shapes if shape[0] >= shape[1]), key=sum)


def _orthonormal(length: int, count: int, rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy(np.linalg.qr(rng.standard_normal((length, count)))[0].astype(np.float32))


def _shape(sizes: list[int] | None) -> Shape:
    p1, p2, p3 = solved(sizes)
    return p1, p2, p3


def _most_useful_ranks(settings: NimbleTtConfig) -> tuple[int, int]:
    """Cap ranks: more than the smaller side of an unfolding adds nothing."""
    s1, s2, s3 = (p * q for p, q in zip(_shape(settings.row_shape), _shape(settings.column_shape), strict=True))
    return min(s1, s2 * s3), min(s1 * s2, s3)


def _ranks(settings: NimbleTtConfig) -> tuple[int, int]:
    first, second = _most_useful_ranks(settings)
    return min(solved(settings.rank), first), min(solved(settings.rank), second)


def _values(settings: NimbleTtConfig) -> int:
    (p1, p2, p3), (q1, q2, q3) = _shape(settings.row_shape), _shape(settings.column_shape)
    r1, r2 = _ranks(settings)
    return p1 * q1 * r1 + r1 * p2 * q2 * r2 + r2 * p3 * q3
