# SPDX-License-Identifier: Apache-2.0
"""Join a layer, a backbone and a graph: the vectors that are trained and ranked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from legcf.backbones.base import Backbone
from legcf.core import distributed
from legcf.core.arrays import FloatArray, Positions
from legcf.core.config import TrainingConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer
from legcf.embeddings.ranked import pooled_ranking_of, ranking_of
from legcf.graph.adjacency import bipartite
from legcf.graph.basis import Basis, build_basis
from legcf.graph.operator import Operator
from legcf.ranking.ranking import Ranking
from legcf.training.sampler import WHOLE


@dataclass(frozen=True, eq=False)
class _View:
    """Hold a view of the graph, ready to propagate on."""

    operator: Operator
    basis: tuple[Basis, nn.Parameter] | None
    """M and Θ with H = M · Θ, where layer and backbone are linear."""


class GraphModel(nn.Module):
    """Compute the vectors of entities, in one of two ways with the same result.

    On the propagated basis (M, constant between changes of the graph) a batch costs one small dense product, H = M·Θ
    for its rows alone. Step by step, the whole input is propagated every time: for layers or backbones that are not
    linear, and as the reference that the basis is checked against.

    With `folds` (a number for every training pair), there is a view of the graph without the edges of each fold, so
    that a pair can be learnt from vectors that do not already know of it.
    """

    def __init__(
        self,
        layer: EmbeddingLayer[Any],
        backbone: Backbone[Any],
        train: Interactions,
        training: TrainingConfig,
        spill_folder: Path | None = None,
        folds: NDArray[np.integer] | None = None,
    ) -> None:
        super().__init__()
        self.layer, self.backbone = layer, backbone
        self._train, self.folds = train, folds
        self._training, self._spill_folder = training, spill_folder
        self._views: dict[int, _View] = {}
        self._kept: NDArray[np.bool_] | None = None
        self._histories = train

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Take tensors, or arrays as files have them."""
        tensors = {name: torch.as_tensor(values) for name, values in state_dict.items()}
        return super().load_state_dict(tensors, strict, assign)

    @property
    def on_basis(self) -> bool:
        return self._at(WHOLE).basis is not None

    def rebuild(self) -> None:
        """Make graph and basis anew: when the layer has its values, and whenever its graph has changed."""
        distributed.broadcast_arrays(tensor.detach().numpy() for tensor in (*self.parameters(), *self.buffers()))
        self._views = {}  # first: old and new need not be in memory together
        for number in (WHOLE, *self._fold_numbers):
            self._at(number)

    def release(self) -> None:
        """Free what steps of training need; it is made again when it is asked for."""
        self._views = {}

    @property
    def _fold_numbers(self) -> range:
        return range(0 if self.folds is None else int(self.folds.max(initial=-1)) + 1)

    def _at(self, number: int) -> _View:
        if number not in self._views:
            self._views[number] = self._view(number, count=1 + len(self._fold_numbers))
        return self._views[number]

    def keep_edges(self, kept: NDArray[np.bool_] | None) -> None:
        """Keep only the marked training pairs as edges from now on; None: all of them."""
        self._kept = kept
        self._histories = self._train if kept is None else self._train.subset(kept)
        self.rebuild()

    def encode(self, entities: torch.Tensor, view: int = WHOLE, rng: np.random.Generator | None = None) -> torch.Tensor:
        """Return final vectors of some distinct entities, differentiable; dropout of the backbone draws from `rng`."""
        return self.encoded(entities, view, rng)[0]

    def encoded(
        self, entities: torch.Tensor, view: int = WHOLE, rng: np.random.Generator | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return final vectors as `encode` does, and all rows if they were made for it: making them can be dear."""
        travelled = None
        operator, on_basis = self._at(view).operator, self._at(view).basis
        coefficients = self.backbone.coefficients()
        if on_basis is not None:
            propagated, theta = on_basis
            vectors = propagated.rows_times(entities, theta)
        elif coefficients is not None and coefficients.shape == (1, 1):
            vectors = float(coefficients[0, 0]) * self.layer.rows(entities)  # nothing travels: only these rows matter
        else:
            travelled = self.layer.input_rows()
            vectors = self.backbone.propagate(operator, travelled, rng, entities)
        return self._with_bias(vectors, entities), travelled

    def ranking(self, users: Positions | None = None) -> Ranking:
        """Return what ranks, of all users or these: vectors of one propagation, bias and, where they suffice, codes."""
        if self.backbone.pools:
            return pooled_ranking_of(self.layer, self.backbone, self._histories, users)
        return ranking_of(self._all_vectors().numpy(), self.layer, self.backbone, self._histories).of_users(users)

    def meta_vectors(self) -> FloatArray | None:
        """Return H_meta: final vectors of the nodes that the layer added to the graph (Eq. 9)."""
        added = self._all_vectors()[self.layer.num_entities :]
        return added.numpy() if len(added) else None

    def entity_vectors(self) -> FloatArray:
        """Return H_full (Eq. 9), without any bias."""
        return self._all_vectors()[: self.layer.num_entities].numpy()

    def input_gradient(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return the gradient at the layer's rows, for one at the final vectors of all entities."""
        rows = self.layer.input_rows().detach().requires_grad_()
        propagated = self.backbone.propagate(self._at(WHOLE).operator, rows)[: self.layer.num_entities]
        return torch.autograd.grad(propagated, rows, gradient)[0]

    def _view(self, number: int, count: int) -> _View:
        propagation, coefficients = self._training.propagation, self.backbone.coefficients()
        kept = self._kept if self.folds is None or number == WHOLE else self.folds != number
        graph = self.layer.graph(bipartite(self._train, kept))
        operator = self.backbone.operator(graph, self.layer.num_users, self.layer.num_items)
        travels = coefficients is not None and coefficients.shape[1] > 1
        linear = self.layer.linear_basis() if propagation == "basis" or (propagation == "auto" and travels) else None
        if linear is None or coefficients is None:
            if propagation == "basis":
                raise UserError("training.propagation = basis needs a linear layer and a linear backbone; use auto.")
            return _View(operator, None)
        selection, theta = linear
        spill = self._spill_folder / f"basis{number}.npy" if self._spill_folder is not None else None
        propagated = build_basis(operator, selection, coefficients, self._training.memory_cap_mb / count, spill)
        return _View(operator, (propagated, theta))

    @torch.no_grad()
    def _all_vectors(self) -> torch.Tensor:
        mode = self.training
        self.eval()
        whole = self._at(WHOLE)
        if whole.basis is not None:
            propagated, theta = whole.basis
            vectors = propagated.times(theta)
        else:
            vectors = self.backbone.propagate(whole.operator, self.layer.input_rows())
        self.train(mode)
        return vectors

    def _with_bias(self, vectors: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
        """Add the bias as one more column, 1 for users and the bias for items, so a score stays an inner product."""
        bias = self.layer.item_bias
        if bias is None:
            return vectors
        return torch.column_stack([vectors, torch.cat([torch.ones(self.layer.num_users), bias])[entities]])
