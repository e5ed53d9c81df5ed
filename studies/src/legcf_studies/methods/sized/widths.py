# SPDX-License-Identifier: Apache-2.0
"""Give entities widths of their own: what the searches over sizes end with."""

from itertools import pairwise
from typing import Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, normal, smallest_type
from legcf.embeddings.budget import Budgeted, stored_values, too_small
from legcf_studies.methods.common import xavier_uniform


class WidthConfig(Budgeted):
    """Hold the options that the layers with widths of their own share."""

    dim: int = Field(128, ge=1, description="d, the width of a row and the most that an entity can have")
    initial: Literal["normal", "xavier"] = Field("normal", description="N(0, 0.1²) as LightGCN's code, or Xavier")
    target: float | None = Field(
        None, gt=0, le=1, description="most values, as a share of N·d, unless a budget says it; no limit if null"
    )

    @property
    def least_width(self) -> int:
        return 1

    def allowed_values(self, num_entities: int) -> int | None:
        """Return the most that Σ widths may be. A target below the least means the least, a budget below is refused."""
        least = self.least_width * num_entities
        if self.budget is None:
            return None if self.target is None else max(int(self.target * num_entities * self.dim), least)
        allowed = stored_values(self.budget, num_entities)
        if allowed < least:
            raise too_small(allowed, least)
        return allowed


def check_widths(widths: list[int], dim: int) -> None:
    """Refuse candidate widths that do not rise from 1 at least to dim at most."""
    if not widths:
        raise ValueError("at least one candidate width is needed")
    if widths[0] < 1 or any(low >= high for low, high in pairwise(widths)):
        raise ValueError("widths must be at least 1 and rise, such as [1,4,8]")
    if widths[-1] > dim:
        raise ValueError(f"the candidate width {widths[-1]} is above dim = {dim}; raise dim or leave it out")


W = TypeVar("W", bound=WidthConfig)


class WidthTable(EmbeddingLayer[W]):
    """Give E0_x, the first widths[x] values of W_x and zeros behind them; W ∈ R^{N×d}, 0 ≤ widths[x] ≤ d.

    Values behind an entity's width never matter: they are zero in the table, have no gradient and are not stored.
    """

    widths: torch.Tensor
    seed: torch.Tensor
    """Of the first values, so that a search can be followed by training from where it began."""

    def __init__(self, config: W, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.weight = nn.Parameter(torch.zeros(self.num_entities, config.dim))
        self.register_buffer("widths", torch.full((self.num_entities,), config.dim, dtype=torch.int32))
        self.register_buffer("seed", torch.zeros((), dtype=torch.int64))

    @classmethod
    def sized(cls, config: W, num_users: int, num_items: int) -> W:
        return config.model_copy(update={"budget": config.allowed_values(num_users + num_items)})

    @property
    def width(self) -> int:
        return self.weight.shape[1]

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        self.seed.fill_(int(rng.integers(2**62)))
        self.restart()

    def restart(self) -> None:
        """Restore the values that training started from, bit by bit; widths stay."""
        shape, rng = (self.num_entities, self.width), np.random.default_rng(int(self.seed))
        xavier = self.config.initial == "xavier"
        self.weight.data.copy_(xavier_uniform(shape, rng) if xavier else normal(shape, 0.1, rng))

    def set_widths(self, widths: NDArray[np.integer] | torch.Tensor) -> None:
        """Set one width for every entity, users first."""
        new_widths = torch.as_tensor(widths)
        if new_widths.shape != self.widths.shape or int(new_widths.min()) < 0 or int(new_widths.max()) > self.width:
            raise ValueError(f"{self.num_entities} widths between 0 and {self.width} are needed")
        self.widths.copy_(new_widths)

    def table(self) -> torch.Tensor:
        return self.weight * self.mask(self.widths)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self.weight[ids] * self.mask(self.widths[ids])

    def mask(self, widths: torch.Tensor) -> torch.Tensor:
        """Return a row of 1s and then 0s for every width."""
        return (torch.arange(self.width) < widths[:, None]).to(self.weight.dtype)

    def entity_sizes(self) -> NDArray[np.int64]:
        return self.widths.numpy().astype(np.int64)

    def num_params(self) -> int:
        """Count Σ_x widths[x]."""
        return int(self.widths.sum())

    def pack(self, state: dict[str, torch.Tensor]) -> None:
        """Keep only the values within the widths."""
        state["weight"] = state["weight"][self.mask(self.widths).bool()]
        state["widths"] = state["widths"].to(smallest_type(self.width + 1))

    def unpack(self, state: dict[str, torch.Tensor]) -> None:
        if state["weight"].ndim == 1:
            within = self.mask(state["widths"].int()).bool()
            state["weight"] = torch.zeros(within.shape).masked_scatter(within, state["weight"])
