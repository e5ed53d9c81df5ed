# SPDX-License-Identifier: Apache-2.0
"""Learn the codebook of items whose users are their histories, by the formula of the gradient: no torch.

An item is e_i = Σ_m S_im C_m, a user h_u = s_u Σ_{i ∈ N(u)} s_i e_i, and the loss a sampled softmax of inner products.
Both are linear in the codebook C: the vectors of a batch are H = M C with M sparse, so C's gradient is Mᵀ that of H.
"""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from legcf.core import distributed
from legcf.core.arrays import Arrays, FloatArray
from legcf.core.config import TrainingConfig
from legcf.core.jit import njit, prange
from legcf.graph.adjacency import bipartite
from legcf.graph.basis_numba import add_rows, columns_a_task, give_rows, take_rows
from legcf.training.learning.softmax import clashes_of, softmax_gradient
from legcf.training.sampler import Negatives, TrainingBatch
from legcf.training.solved_model import SolvedModel
from legcf.training.stage import Stage

_BETA1, _EPSILON = 0.9, 1e-8  # of Adam (Kingma and Ba, ICLR 2015)


class CodebookAdam:
    """Move an array by Adam; what it remembers is named as torch names it."""

    def __init__(self, values: FloatArray, group: dict[str, Any], beta2: float) -> None:
        self.param_groups, self._values, self._beta2 = [group], values, beta2
        self._steps = 0
        self._first, self._second = np.zeros_like(values), np.zeros_like(values)

    def step(self, gradient: FloatArray) -> None:
        """Move the values against a gradient."""
        self._steps += 1
        rate = self.param_groups[0]["lr"] / (1 - _BETA1**self._steps)
        root = float(np.sqrt(1 - self._beta2**self._steps))
        _move(self._values, gradient, self._first, self._second, rate, root, _BETA1, self._beta2, _EPSILON)

    def state_dict(self) -> dict[str, Any]:
        """Return moments and the group."""
        moments = {"step": np.float32(self._steps), "exp_avg": self._first, "exp_avg_sq": self._second}
        return {"state": {0: moments} if self._steps else {}, "param_groups": self.param_groups}

    def load_state_dict(self, content: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned."""
        self.param_groups = content["param_groups"]
        for moments in content["state"].values():
            self._steps = int(moments["step"])
            self._first[...], self._second[...] = moments["exp_avg"], moments["exp_avg_sq"]


class CodebookLearner:
    """Take the steps of a session that learns the codebook of a solved model."""

    negatives: Negatives = "shared"

    def __init__(self, model: SolvedModel, training: TrainingConfig) -> None:
        self._model, self._training = model, training
        self.new_optimiser()

    def new_optimiser(self) -> None:
        """Begin without memory of earlier steps."""
        codebook = self._model.layer.array("codebook")
        size = float(np.sqrt(np.square(codebook, dtype=np.float64).mean()))
        scale = size if self._training.scale_lr_by_rms and size > 0 else 1.0
        self._group = {"lr": self._training.learning_rate, "scale": scale}
        self._adam: CodebookAdam | None = None

    @property
    def optimiser(self) -> CodebookAdam:
        """Return Adam, made when it is first used: some runs train nothing."""
        if self._adam is None:
            self._adam = CodebookAdam(self._model.layer.array("codebook"), self._group, self._training.beta2)
        return self._adam

    def enter(self, stage: Stage[Any]) -> None:
        """Make ready for a stage: all that can be learned is."""

    def release(self) -> None:
        """Free what steps need."""
        self._adam = None
        self.__dict__.pop("_basis", None)

    def values(self) -> Arrays:
        """Return a copy of what the model holds."""
        return {name: np.array(array) for name, array in self._model.state_dict().items()}

    def restored(self, arrays: Arrays) -> Arrays:
        """Return values as `load_state_dict` of stages takes them."""
        return arrays

    def step(self, batch: TrainingBatch, rng: np.random.Generator) -> float:
        """Take one gradient step, and return the loss."""
        codebook = self._model.layer.array("codebook")
        basis = (self._basis.indptr, self._basis.indices, self._basis.data)
        vectors = np.empty((len(batch.entities), codebook.shape[1]), dtype=np.float32)
        take_rows(*basis, batch.entities, codebook, vectors)
        users, positives = vectors[batch.users], vectors[batch.positives]
        shares = self._shares(batch)
        users -= shares * positives
        clashes = clashes_of(batch.positives, batch.negatives, len(vectors))
        found = softmax_gradient(
            users, positives, vectors[batch.negatives], clashes, batch.weights, self._training.negative_weight
        )
        found.positives[...] -= shares * found.users
        columns, gradient = columns_a_task(codebook.shape[1]), np.zeros_like(vectors)
        add_rows(batch.users, found.users, gradient, columns)
        add_rows(batch.positives, found.positives, gradient, columns)
        add_rows(batch.negatives, found.negatives, gradient, columns)
        of_codebook = np.zeros_like(codebook)
        give_rows(*basis, batch.entities, gradient, of_codebook, columns)
        self.optimiser.step(_averaged(of_codebook, batch.num_pairs))
        return found.value

    @cached_property
    def _basis(self) -> sp.csr_matrix:
        """Return M with H = M C: the vectors of users and items as sums of meta-embeddings."""
        layer: Any = self._model.layer
        operator = self._model.backbone.operator(bipartite(self._model.histories), layer.num_users, layer.num_items)
        return (operator.matrix @ layer.assignment.to_csr()).tocsr().astype(np.float32)

    def _shares(self, batch: TrainingBatch) -> FloatArray:
        """Return how much of a pair's item is in its user's vector, where a pair is learned without itself."""
        if not self._training.exclude_target:
            return np.zeros((batch.num_pairs, 1), dtype=np.float32)
        scales = self._model.backbone.scales
        shares: FloatArray = scales[batch.entities[batch.users]] * scales[batch.entities[batch.positives]]
        return shares[:, None]


def _averaged(gradient: FloatArray, pairs: int) -> FloatArray:
    """Return the mean gradient of all ranks, each by its pairs."""
    if distributed.world_size() == 1:
        return gradient
    total = distributed.all_reduce_sum(np.append(gradient.ravel() * np.float32(pairs), np.float32(pairs)))
    mean: FloatArray = (total[:-1] / total[-1]).reshape(gradient.shape)
    return mean


@njit(cache=True, parallel=True)
def _move(values, gradient, first, second, rate, root, beta1, beta2, epsilon):  # type: ignore[no-untyped-def]
    for row in prange(values.shape[0]):
        for k in range(values.shape[1]):
            slope = gradient[row, k]
            first[row, k] = np.float32(beta1) * first[row, k] + np.float32(1 - beta1) * slope
            second[row, k] = np.float32(beta2) * second[row, k] + np.float32(1 - beta2) * slope * slope
            length = np.sqrt(second[row, k]) / np.float32(root) + np.float32(epsilon)
            values[row, k] -= np.float32(rate) * first[row, k] / length
