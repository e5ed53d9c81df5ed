# SPDX-License-Identifier: Apache-2.0
"""Make models: layer, backbone and graph of one configuration."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from legcf.core.config import RunConfig
from legcf.data.interactions import Interactions
from legcf.training.model import GraphModel
from legcf.training.registry import BACKBONES, METHODS


@dataclass(frozen=True, eq=False)
class TrainingGraph:
    """Hold what a model's graph needs for training alone."""

    spill_folder: Path | None = None
    """Where a basis goes that is too large for memory; None: it stays in memory."""
    folds: NDArray[np.integer] | None = None
    """The fold of every training pair, where pairs are learned from the graph without their edges."""


def make_model(
    config: RunConfig,
    train: Interactions,
    fill: Callable[[GraphModel], object],
    training_graph: TrainingGraph | None = None,
) -> GraphModel:
    """Make a model, let `fill` give it its values, and make its graph.

    Without `training_graph` the model only ranks. Its rows are then propagated once, step by step: a basis pays only
    when there are many steps.
    """
    layer = METHODS[config.method.name].layer(config.method, train.num_users, train.num_items)
    backbone = BACKBONES[config.backbone.name](config.backbone, layer.width)
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
