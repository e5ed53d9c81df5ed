# SPDX-License-Identifier: Apache-2.0
"""Cut an entity's number in bits into blocks, each of which picks a row of a small table (binary code).

Yan et al., "Binary Code based Hash Embedding for Web-scale Applications", CIKM 2021.
"""

import math
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import nn

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, normal
from legcf.embeddings.budget import solved, stored_values, too_small
from legcf_studies.methods.common import PLAIN_PRESETS, ComparisonRow, ensure_within, ones_at
from legcf_studies.methods.composed.fitted import FITTED, FittedConfig, start_from_als


class BinaryCodeConfig(FittedConfig):
    name: Literal["binary-code"] = "binary-code"
    dim: int = Field(128, ge=1, description="width of a composed row")
    block_bits: int | None = Field(None, ge=1, le=62, description="most bits of a block; as the budget allows if null")
    blocks: Literal["succession", "skip"] = Field(
        "succession", description="a block is consecutive bits, or every s-th bit where there are s blocks"
    )
    shared: bool = Field(False, description="one table for all blocks; entities with swapped blocks then coincide")
    fusion: Literal["sum", "mean", "concat"] = Field("sum", description="how the rows of the blocks are made one")


class BinaryCode(EmbeddingLayer[BinaryCodeConfig]):
    """Give e_x = Σ_i T_i[block i of x]; the tables are one matrix, lowest block first."""

    Config = BinaryCodeConfig
    summary = "the bits of an entity's number in blocks, each picking a row of a small table"
    citation = "Yan et al., Binary Code based Hash Embedding for Web-scale Applications, CIKM 2021"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {"binary-code": ComparisonRow("binary code", fitted=FITTED)}
    presets: ClassVar[dict[str, dict[str, Any]]] = PLAIN_PRESETS

    def __init__(self, config: BinaryCodeConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self._positions = block_positions(self.config, self.num_entities)
        heights = _table_heights(self.config, self.num_entities)
        self._starts = np.zeros_like(heights) if config.shared else np.cumsum(heights) - heights
        self.weight = nn.Parameter(torch.zeros(_shape(self.config, heights)))

    @classmethod
    def sized(cls, config: BinaryCodeConfig, num_users: int, num_items: int) -> BinaryCodeConfig:
        entities = num_users + num_items
        length = _code_length(entities)
        if config.block_bits is not None:
            if config.block_bits > length:
                raise UserError(
                    f"method.block_bits = {config.block_bits} is more than the {length} bits of {entities} entities."
                )
            values = _values(config, entities)
            if values is None:
                raise UserError(
                    f"method.dim = {config.dim} cannot be divided among the blocks that"
                    f" block_bits = {config.block_bits} makes of {length} bits; fusion = concat needs that."
                )
            ensure_within(config.budget, entities, values)
            return config
        allowed = stored_values(config.budget or "legcf", entities)
        tried = [config.model_copy(update={"block_bits": bits}) for bits in range(1, length + 1)]
        possible = [(values, one) for one in tried if (values := _values(one, entities)) is not None]
        fitting = [pair for pair in possible if pair[0] <= allowed]
        if not fitting:
            raise too_small(allowed, min(values for values, _ in possible))
        return max(fitting, key=lambda pair: pair[0])[1]

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        if self.config.start == "als":
            start_from_als(self, train, rng)
            return
        parts = len(self._starts)
        deviation = 0.1 * {"sum": parts**-0.5, "mean": parts**0.5, "concat": 1}[self.config.fusion]
        self.weight.data.copy_(normal(tuple(self.weight.shape), deviation, rng))

    def codes(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the value of every block, a row per entity, lowest block first."""
        return torch.from_numpy(_block_values(ids.numpy(), self._positions))

    def table_rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self.codes(ids) + torch.from_numpy(self._starts)

    def table(self) -> torch.Tensor:
        return self.rows(torch.arange(self.num_entities))

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        table_rows = self.table_rows(ids)
        if self.config.fusion == "concat":
            return nn.functional.embedding(table_rows, self.weight).flatten(1)
        return nn.functional.embedding_bag(table_rows, self.weight, mode=self.config.fusion)

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter] | None:
        if self.config.fusion == "concat":
            return None
        selection = ones_at(self.table_rows(torch.arange(self.num_entities)).numpy(), len(self.weight))
        if self.config.fusion == "mean":
            selection.data /= len(self._starts)
        return selection, self.weight


def _code_length(entities: int) -> int:
    """Return how many bits the largest number needs."""
    return max(1, int(entities - 1).bit_length())


def block_positions(settings: BinaryCodeConfig, entities: int) -> list[list[int]]:
    """Return the bits of every block, lowest first."""
    length, most = _code_length(entities), solved(settings.block_bits)
    if settings.blocks == "succession":
        return [list(range(start, min(start + most, length))) for start in range(0, length, most)]
    count = -(-length // most)
    return [list(range(start, length, count)) for start in range(count)]


def _block_values(ids: np.ndarray, positions: list[list[int]]) -> np.ndarray:
    values = np.zeros((len(ids), len(positions)), dtype=np.int64)
    for block, bits in enumerate(positions):
        for shift, bit in enumerate(bits):
            values[:, block] |= (ids >> bit & 1) << shift
    return values


def _table_heights(settings: BinaryCodeConfig, entities: int) -> np.ndarray:
    """Return how many rows each block can reach among the numbers that there are."""
    heights: np.ndarray = _block_values(np.arange(entities), block_positions(settings, entities)).max(axis=0) + 1
    return heights


def _shape(settings: BinaryCodeConfig, heights: np.ndarray) -> tuple[int, int]:
    rows = int(heights.max() if settings.shared else heights.sum())
    return rows, settings.dim // len(heights) if settings.fusion == "concat" else settings.dim


def _values(settings: BinaryCodeConfig, entities: int) -> int | None:
    """Count stored values; None where the width cannot be divided among the blocks."""
    heights = _table_heights(settings, entities)
    if settings.fusion == "concat" and settings.dim % len(heights):
        return None
    return math.prod(_shape(settings, heights))
