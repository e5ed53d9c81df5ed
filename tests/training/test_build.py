# SPDX-License-Identifier: Apache-2.0
"""Check that a model is made the same for training and for ranking."""

import numpy as np

from legcf.training.build import TrainingGraph, make_model
from legcf.training.model import GraphModel
from legcf.training.registry import resolve
from tests.helpers import planted


def test_a_model_that_only_ranks_has_the_vectors_of_the_one_that_trains() -> None:
    train = planted(40, 40).train
    config = resolve(preset="paper", overrides={"method": {"c": 8, "dim": 8}})

    def fill(model: GraphModel) -> None:
        rng = np.random.default_rng(0)
        model.layer.initialise(train, rng)
        model.backbone.initialise(rng)

    trains, ranks = make_model(config, train, fill, TrainingGraph()), make_model(config, train, fill)
    assert trains.on_basis
    assert not ranks.on_basis
    assert (trains.training, ranks.training) == (True, False)
    np.testing.assert_allclose(trains.ranking().items, ranks.ranking().items, atol=1e-5)
