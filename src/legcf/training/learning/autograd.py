# SPDX-License-Identifier: Apache-2.0
"""Take steps along the gradients that torch finds: of any layer, backbone and loss."""

from typing import Any

import numpy as np
import torch

from legcf.core import distributed
from legcf.core.arrays import Arrays
from legcf.core.config import TrainingConfig
from legcf.training.learning.adam import Adam
from legcf.training.learning.losses import LOSSES, check_loss, squared_norms, without_own_pair
from legcf.training.model import GraphModel
from legcf.training.sampler import Negatives, TrainingBatch
from legcf.training.stage import Stage


class AutogradLearner:
    """Take the steps of a session that trains a graph model."""

    def __init__(self, model: GraphModel, training: TrainingConfig) -> None:
        check_loss(training)
        self._model, self._training = model, training
        self.loss = LOSSES[training.loss]
        self.new_optimiser()

    @property
    def negatives(self) -> Negatives:
        """Return what the sampler must draw."""
        return self.loss.negatives

    def new_optimiser(self) -> None:
        """Begin with a new Adam, without memory of earlier steps, over all parameters."""
        self._groups = [{"params": [weight], "scale": self._rate_scale(weight)} for weight in self._model.parameters()]
        self._optimiser: Adam | None = None

    @property
    def optimiser(self) -> Adam:
        """Return Adam, made when it is first used: some runs train nothing."""
        if self._optimiser is None:
            self._optimiser = Adam(self._groups, self._training.learning_rate, (0.9, self._training.beta2))
        return self._optimiser

    def enter(self, stage: Stage[Any]) -> None:
        """Learn what a stage learns."""
        for name, parameter in self._model.named_parameters():
            parameter.requires_grad_(stage.trains(name))

    def release(self) -> None:
        """Free what steps need."""
        self._optimiser = None
        self._model.release()

    def values(self) -> dict[str, torch.Tensor]:
        """Return a copy of what the model holds."""
        return {name: tensor.clone() for name, tensor in self._model.state_dict().items()}

    def restored(self, arrays: Arrays) -> dict[str, torch.Tensor]:
        """Return values as `load_state_dict` of stages takes them."""
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def step(self, batch: TrainingBatch, rng: np.random.Generator) -> float:
        """Take one gradient step, and return the loss."""
        training = self._training
        entities = torch.from_numpy(batch.entities)
        encoded, travelled = self._model.encoded(entities, batch.fold, rng)
        vectors, pairs = encoded, batch
        if training.exclude_target:
            vectors, pairs = without_own_pair(self._model, vectors, entities, batch)
        loss = self.loss_of(vectors, pairs)
        if training.l2:
            loss = loss + training.l2 * squared_norms(self._model, training.l2_on, batch, entities, encoded, travelled)
        penalty = self._model.layer.penalty()
        if penalty is not None:
            loss = loss + penalty
        self.optimiser.zero_grad()
        if not loss.requires_grad:  # a stage that trains nothing
            return loss.item()
        loss.backward()  # type: ignore[no-untyped-call]
        distributed.average_gradients(self._model.parameters(), batch.num_pairs)
        if training.gradient_clip is not None:
            torch.nn.utils.clip_grad_value_(self._model.parameters(), training.gradient_clip)
        self.optimiser.step()
        return loss.item()

    def loss_of(self, vectors: torch.Tensor, batch: TrainingBatch) -> torch.Tensor:
        """Compute the configured loss of a batch's vectors, without any penalty."""
        return self.loss(vectors, batch, self._training.negative_weight, self._training.temperature)

    def _rate_scale(self, parameter: torch.nn.Parameter) -> float:
        size = float(parameter.detach().square().mean().sqrt())
        return size if self._training.scale_lr_by_rms and size > 0 else 1.0
