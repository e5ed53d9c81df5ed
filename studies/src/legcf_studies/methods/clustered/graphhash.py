# SPDX-License-Identifier: Apache-2.0
"""Hash users and items by the communities of their graph: those of one community share a row (GraphHash).

Wu et al., "GraphHash: Graph Clustering Enables Parameter Efficiency in Recommender Systems", WWW 2025. Users and items
never share a row. The double one adds a second row, drawn by a universal hash from as many.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import nn

from legcf.core.arrays import IntArray
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, StateDict, normal, smallest_type
from legcf.embeddings.budget import solved
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf_studies.methods.clustered.louvain import louvain
from legcf_studies.methods.common import PAPER_TRAINING, largest_within, ones_at, take_saved_shapes
from legcf_studies.methods.composed.fitted import FittedConfig, start_from_als
from legcf_studies.methods.composed.hashing import draw_constants, hashed

_TRIALS = 10  # of resolutions, each a step of a bisection of their logarithms
_LEAST_RESOLUTION, _MOST_RESOLUTION = 0.1, 1e5
_CONSTANT_BYTES = 32


class GraphHashConfig(FittedConfig):
    name: Literal["graphhash"] = "graphhash"
    dim: int = Field(128, ge=1, description="width of a row")
    resolution: float | None = Field(
        None, gt=0, description="γ, higher for more and smaller communities; found for the budget if null"
    )
    rows: int | None = Field(None, ge=2, description="most rows; what the budget allows if null and γ is null too")
    double: bool = Field(False, description="add a row that a hash of the entity's number picks (DoubleGraphHash)")


class GraphHash(EmbeddingLayer[GraphHashConfig]):
    """Give E0[x] = W[community of x], and + W[hash of x] in the double form; rows of users come first."""

    Config = GraphHashConfig
    summary = "one row a community of the graph, found by Louvain's method; a hashed row beside it in the double form"
    citation = "Wu et al., GraphHash: Graph Clustering Enables Parameter Efficiency in Recommender Systems, WWW 2025"
    comparison_rows: ClassVar[None] = None
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The release: γ = 200 (Gowalla, Yelp2018, Amazon-book), 64 wide, two layers; here in the LEGCF paper's loop.
        "paper": {
            "method": {"dim": 64, "resolution": 200.0}, "backbone": {"layers": 2}, "training": PAPER_TRAINING,
        },
        # Rows of 32 with cosines: validation NDCG@20 0.1269 on LastFM, 0.0925 with rows of 128 and inner products.
        "default": {"method": {"dim": 32}, "training": DEFAULT_TRAINING, "ranking": DEFAULT_RANKING},
    }  # fmt: skip

    assigned: torch.Tensor
    num_user_rows: torch.Tensor
    hash_constants: torch.Tensor

    def __init__(self, config: GraphHashConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.weight = nn.Parameter(torch.zeros(self.config.rows or 2, config.dim))
        self.register_buffer("assigned", torch.zeros(self.num_entities, dtype=torch.int32))
        self.register_buffer("num_user_rows", torch.ones((), dtype=torch.int32))
        self.register_buffer("hash_constants", torch.ones(2, int(config.double), dtype=torch.int64))
        take_saved_shapes(self, "weight")

    @classmethod
    def sized(cls, config: GraphHashConfig, num_users: int, num_items: int) -> GraphHashConfig:
        """Allow ⌊budget / d⌋ rows; communities are indices and count in bytes alone."""
        entities = num_users + num_items
        if config.rows is not None or (config.resolution is not None and config.budget is None):
            return config

        def stored(pairs: int) -> int:
            """Return the bytes of two rows a pair, one of each side at least."""
            index = smallest_type(2 * pairs).itemsize
            return 8 * pairs * config.dim + index * entities + 4 + _CONSTANT_BYTES * config.double

        most = max(entities // 2, 1)
        pairs = largest_within(config.budget, entities, most, lambda pairs: 2 * pairs * config.dim, stored)
        return config.model_copy(update={"rows": 2 * pairs})

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        labels, users = self._communities(train, rng)
        self.assigned.copy_(torch.from_numpy(labels))
        self.num_user_rows.fill_(users)
        self.weight.data = normal((int(labels.max()) + 1, self.config.dim), 0.1, rng)
        if self.config.double:
            self.hash_constants.copy_(draw_constants(1, rng))
            self.weight.data /= 2**0.5
        if self.config.start == "als":
            start_from_als(self, train, rng)

    def _communities(self, train: Interactions, rng: np.random.Generator) -> tuple[IntArray, int]:
        """Return the row of every entity and the number of users' rows, within the rows that are allowed."""
        seed = int(rng.integers(2**62))

        def found(resolution: float) -> tuple[IntArray, int]:
            return _rows_of(louvain(train, resolution, np.random.default_rng(seed)), train)

        if self.config.resolution is not None:
            labels, users = found(self.config.resolution)
            return (labels, users) if self.config.rows is None else _within(labels, users, self.config.rows)
        allowed, low, high = solved(self.config.rows), _LEAST_RESOLUTION, _MOST_RESOLUTION
        best = found(low)
        for _ in range(_TRIALS):
            middle = (low * high) ** 0.5
            trial = found(middle)
            if int(trial[0].max()) < allowed:
                best, low = trial, middle
            else:
                high = middle
        return _within(*best, allowed)

    def table_rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of W of each entity, one or two columns."""
        own = self.assigned[ids].long()[:, None]
        if not self.config.double:
            return own
        users = int(self.num_user_rows)
        of_users = hashed(ids, self.hash_constants, users)
        of_items = users + hashed(ids, self.hash_constants, max(len(self.weight) - users, 1))
        return torch.cat([own, torch.where(ids[:, None] < self.num_users, of_users, of_items)], dim=1)

    def table(self) -> torch.Tensor:
        return self.rows(torch.arange(self.num_entities))

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding_bag(self.table_rows(ids), self.weight, mode="sum")

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter]:
        return ones_at(self.table_rows(torch.arange(self.num_entities)).numpy(), len(self.weight)), self.weight

    def pack(self, state: StateDict) -> None:
        state["assigned"] = state["assigned"].to(smallest_type(len(state["weight"])))


def _rows_of(communities: IntArray, train: Interactions) -> tuple[IntArray, int]:
    """Number the communities of users, then those of items, the largest first; who has no pairs joins the first."""
    parts, offset = [], 0
    counts = []
    for labels, degrees in zip(
        np.split(communities, [train.num_users]), (train.user_degrees, train.item_degrees), strict=True
    ):
        _, index, sizes = np.unique(labels[degrees > 0], return_inverse=True, return_counts=True)
        rank = np.empty(len(sizes), np.int32)
        rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes), dtype=np.int32)
        rows = np.zeros(len(labels), np.int32)
        rows[degrees > 0] = rank[index]
        parts.append(rows + offset)
        counts.append(max(len(sizes), 1))
        offset += counts[-1]
    return np.concatenate(parts), counts[0]


def _within(labels: IntArray, users: int, allowed: int) -> tuple[IntArray, int]:
    """Let the smallest communities of each side share a row where there are more of them than rows."""
    count = int(labels.max()) + 1
    if count <= allowed:
        return labels, users
    of_users = min(max(round(allowed * users / count), 1), allowed - 1)
    own = np.minimum(labels, of_users - 1)
    others = of_users + np.minimum(labels - users, allowed - of_users - 1)
    return np.where(labels < users, own, others).astype(np.int32), of_users
