# SPDX-License-Identifier: Apache-2.0
"""Make models: layer, backbone and graph of one configuration; those that are solved need no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legcf.core.config import RunConfig
from legcf.core.errors import MissingExtra
from legcf.data.interactions import Interactions
from legcf.embeddings.layer import SolvedLayer
from legcf.training.registry import BACKBONES, METHODS
from legcf.training.solved_model import SolvedModel

if TYPE_CHECKING:
    from legcf.training.model import GraphModel

Model: TypeAlias = "GraphModel | SolvedModel"
"""What ranks, trained or not."""


@dataclass(frozen=True, eq=False)
class TrainingGraph:
    """Hold what a model's graph needs for training alone."""

    spill_folder: Path | None = None
    """Where a basis goes that is too large for memory; None: it stays in memory."""
    folds: NDArray[np.integer] | None = None
    """The fold of every training pair, where pairs are learned from the graph without their edges."""


def is_solved(config: RunConfig) -> bool:
    """Return whether nothing is trained with these settings."""
    method = METHODS[config.method.name]
    if not issubclass(method.layer, SolvedLayer) or BACKBONES[config.backbone.name].learns:
        return False
    untrained = not config.training.epochs and not config.ranking.search_representation
    return method.learner is None or (untrained and method.layer.solves(config.method))


def learns_codebook(config: RunConfig) -> bool:
    """Return whether a codebook alone is trained, by a formula: no torch is needed, now or to load the model."""
    method, training = METHODS[config.method.name], config.training
    if not issubclass(method.layer, SolvedLayer) or not method.layer.learns_codebook(config.method):
        return False
    unusual = training.edge_folds or training.l2 or training.gradient_clip is not None or training.temperature != 1
    by_basis = training.propagation in ("auto", "basis")
    return training.loss == "softmax" and by_basis and not unusual and BACKBONES[config.backbone.name].pools


def needs_torch(config: RunConfig) -> bool:
    """Return whether a model with these settings is trained, and loaded, with torch."""
    return not is_solved(config) and not learns_codebook(config)


def require_packages(config: RunConfig) -> None:
    """Refuse, before any work is done, settings that need torch where it is not installed."""
    if needs_torch(config):
        try:
            found = find_spec("torch") is not None  # without importing it: that takes a second
        except ModuleNotFoundError:
            found = False
        if not found:
            raise MissingExtra(f"Preset {config.preset} of method {config.method.name}", "train")


def make_model(
    config: RunConfig, train: Interactions, fill: Callable[[Any], object], training_graph: TrainingGraph | None = None
) -> Model:
    """Make a model, let `fill` give it its values, and make its graph.

    Without `training_graph` the model only ranks. Its rows are then propagated once, step by step: a basis pays only
    when there are many steps.
    """
    method, backbone_type = METHODS[config.method.name], BACKBONES[config.backbone.name]
    layer_type = method.trained_layer if needs_torch(config) else method.layer
    layer: Any = layer_type(config.method, train.num_users, train.num_items)
    backbone = backbone_type(config.backbone, layer.width)
    model: Model
    if isinstance(layer, SolvedLayer):
        model = SolvedModel(layer, backbone, train)
    else:
        from legcf.training.model import GraphModel  # here: what is solved needs no torch

        if training_graph is None:
            stepwise = config.training.model_copy(update={"propagation": "stepwise"})
            model = GraphModel(layer, backbone, train, stepwise)
            model.eval()
        else:
            spill, folds = training_graph.spill_folder, training_graph.folds
            model = GraphModel(layer, backbone, train, config.training, spill, folds)
    fill(model)
    model.rebuild()
    return model
