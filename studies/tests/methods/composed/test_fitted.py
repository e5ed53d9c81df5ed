# SPDX-License-Identifier: Apache-2.0
"""Linear layers that start from a factorisation: as near to it as sums of their rows can be."""

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.training.registry import METHODS, resolve
from legcf_studies.methods.common import ones_at
from legcf_studies.methods.composed.fitted import least_squares
from tests.helpers import planted

LINEAR = {"qr": {"op": "add", "partition": "balanced"}, "double-hash": {}, "binary-code": {}}


def test_rows_that_can_be_composed_are_found_again() -> None:
    rng = np.random.default_rng(0)
    selection = ones_at(np.stack([rng.integers(0, 10, 200), rng.integers(10, 20, 200)], axis=1), 20)
    rows = (selection @ rng.standard_normal((20, 6))).astype(np.float32)
    assert np.allclose(selection @ least_squares(selection, rows), rows, atol=0.02)


@pytest.mark.parametrize("method", sorted(LINEAR))
def test_the_start_ranks_better_than_chance(method: str) -> None:
    """Scores of what is known are above those of the rest, before any training."""
    dataset = planted(60, 60)
    config = resolve(method, overrides={"method": {**LINEAR[method], "dim": 16, "budget": 1000, "start": "als"}})
    layer = METHODS[method].layer(config.method, dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(1))
    with torch.no_grad():
        users, items = layer.table().split([dataset.num_users, dataset.num_items])
        scores = (users @ items.T).numpy()
    known = dataset.train.to_scipy().toarray() > 0
    assert scores[known].mean() > scores[~known].mean() + 0.3 * scores.std()


def test_products_cannot() -> None:
    dataset = planted(40, 40)
    config = resolve("qr", overrides={"method": {"op": "mult", "dim": 8, "budget": 800, "start": "als"}})
    layer = METHODS["qr"].layer(config.method, dataset.num_users, dataset.num_items)
    with pytest.raises(UserError, match="needs rows that are sums"):
        layer.initialise(dataset.train, np.random.default_rng(1))
