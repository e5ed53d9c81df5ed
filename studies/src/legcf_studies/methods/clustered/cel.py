# SPDX-License-Identifier: Apache-2.0
"""Give one vector a cluster of entities; clusters split and exchange members while training (CEL).

Chen et al., "Clustered Embedding Learning for Recommender Systems", WWW 2023. Symbols: a is `assigned`, C is
`clusters`, E0[x] = C[a(x)]. Users and items never share a cluster.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, normal, smallest_type
from legcf.embeddings.budget import Budgeted, solved, stored_values, too_small
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf_studies.methods.common import PAPER_TRAINING, ComparisonRow, ones_at, take_saved_shapes


class CelConfig(Budgeted):
    name: Literal["cel"] = "cel"
    dim: int = Field(128, ge=1, description="width of a cluster's vector")
    clusters: int | None = Field(None, ge=2, description="M_max, most clusters of both sides; by the budget if null")
    start: int = Field(2, ge=1, description="clusters of each side at the start: equal parts by popularity")
    average_gradients: bool = Field(True, description="divide a cluster's gradient by its size")
    cluster_epochs: int = Field(12, ge=0, description="epochs in which clusters split and exchange members")
    split_every: int = Field(1, ge=1, description="epochs between splits")
    splits_at_once: int | None = Field(None, ge=1, description="clusters split at once; as many as there are if null")
    reassign_every: int = Field(2, ge=1, description="epochs between reassignments")
    stay_probability: float = Field(0.31, ge=0, le=1, description="chance that an entity is not asked to move")
    nearest_clusters: int = Field(16, ge=2, description="clusters that an entity may move to: the nearest of its own")
    stiffness: float = Field(1.0, gt=0, description="ρ of the reassignment's cost, relative to gradients and distances")
    gradient_steps: int = Field(20, ge=1, description="batches that the entities' gradients are summed over")


class Cel(EmbeddingLayer[CelConfig]):
    """Give E0 = B · C with one 1 in every row of B."""

    Config = CelConfig
    summary = "one vector a cluster; clusters split along gradients and exchange members while training"
    citation = "Chen et al., Clustered Embedding Learning for Recommender Systems, WWW 2023"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {"cel": ComparisonRow("CEL")}
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The release's script: one cluster, a split every 10 steps of all pairs, members moved every 40, until 800.
        "official": {
            "method": {
                "dim": 64, "clusters": 50, "start": 1, "cluster_epochs": 800, "split_every": 10, "splits_at_once": 1,
                "reassign_every": 40,
            },
            "training": {"loss": "squared", "epochs": 5200, "patience": 100},
        },
        "paper": {"method": {"dim": 128}, "training": PAPER_TRAINING},
        "default": {"training": {**DEFAULT_TRAINING, "epochs": 15}, "ranking": DEFAULT_RANKING},
    }  # fmt: skip

    assigned: torch.Tensor

    def __init__(self, config: CelConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.most_clusters = solved(self.config.clusters)
        start = min(config.start, self.most_clusters // 2)
        self._start = min(start, num_users), min(start, num_items)  # clusters of each side; each has a member
        self.clusters = nn.Parameter(torch.zeros(sum(self._start), config.dim))
        self.register_buffer("assigned", torch.zeros(self.num_entities, dtype=torch.int32))
        take_saved_shapes(self, "clusters")
        if config.average_gradients:
            self.clusters.register_hook(lambda gradient: gradient / self.sizes()[:, None])  # type: ignore[no-untyped-call]

    @classmethod
    def sized(cls, config: CelConfig, num_users: int, num_items: int) -> CelConfig:
        """Solve M_max = ⌊budget / d⌋; cluster numbers are indices and not counted."""
        entities = num_users + num_items
        if config.clusters is not None:
            if config.clusters > entities:
                raise UserError(f"method.clusters = {config.clusters:,} are more than the {entities:,} entities.")
            return config
        allowed = stored_values(config.budget or "legcf", entities)
        if allowed < 2 * config.dim:
            raise too_small(allowed, 2 * config.dim)
        return config.model_copy(update={"clusters": min(allowed // config.dim, entities)})

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        users, items = self._start
        parts = [_equal_parts(train.user_degrees, users), users + _equal_parts(train.item_degrees, items)]
        self.assigned.copy_(torch.from_numpy(np.concatenate(parts)))
        self.clusters.data.copy_(normal((users + items, self.config.dim), 0.1, rng))

    def sizes(self) -> torch.Tensor:
        return torch.bincount(self.assigned, minlength=len(self.clusters))

    def split(self, parents: NDArray[np.integer], assigned: NDArray[np.integer]) -> None:
        """Add new clusters after those there are, each with the vector of its parent."""
        copies = self.clusters.detach()[torch.from_numpy(parents)]
        self.clusters.grad = None
        self.clusters.data = torch.cat([self.clusters.detach(), copies])
        self.assigned.copy_(torch.from_numpy(assigned))

    def table(self) -> torch.Tensor:
        return self.clusters[self.assigned.long()]

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self.clusters[self.assigned[ids].long()]

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter]:
        return ones_at(self.assigned.numpy()[:, None], len(self.clusters)), self.clusters

    def pack(self, state: dict[str, torch.Tensor]) -> None:
        state["assigned"] = state["assigned"].to(smallest_type(len(self.clusters)))


def _equal_parts(degrees: NDArray[np.integer], parts: int) -> NDArray[np.int32]:
    """Split by popularity: the most popular are in the first part."""
    ranks = np.empty(len(degrees), dtype=np.int64)
    ranks[np.argsort(-degrees, kind="stable")] = np.arange(len(degrees))
    return (ranks * parts // max(len(degrees), 1)).astype(np.int32)
