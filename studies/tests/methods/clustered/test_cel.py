# SPDX-License-Identifier: Apache-2.0
"""CEL's clusters: everyone is in one, a split changes no row, and sizes follow the budget."""

from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf_studies.methods.clustered.cel import Cel, CelConfig
from tests.helpers import random_interactions

TRAIN = random_interactions(30, 20, 0.2, seed=0)


def made(**options: Any) -> Cel:
    layer = Cel(CelConfig(**{"dim": 6, "clusters": 12, **options}), 30, 20)
    layer.initialise(TRAIN, np.random.default_rng(0))
    return layer


def test_everyone_is_in_one_cluster_and_sides_do_not_mix() -> None:
    layer = made(start=3)
    assert layer.sizes().sum() == 50
    assert layer.sizes().min() > 0
    assert set(layer.assigned[:30].tolist()).isdisjoint(layer.assigned[30:].tolist())


def test_a_split_changes_no_row() -> None:
    layer = made()
    before = layer.table().detach().clone()
    assigned = layer.assigned.numpy().copy()
    assigned[np.flatnonzero(assigned == 1)[:4]] = 4
    layer.split(np.array([1]), assigned)
    assert torch.equal(layer.table(), before)
    assert len(layer.clusters) == 5
    assert layer.num_params() == 5 * 6
    assert layer.storage_bytes() == 4 * 30 + 50
    other = Cel(layer.config, 30, 20)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.table(), before)


def test_the_gradient_is_the_mean_over_members() -> None:
    """So a cluster of twice the members, each with the same gradient, learns no faster."""
    layer, summed = made(), made(average_gradients=False)
    for each in (layer, summed):
        each.table().sum().backward()
    assert layer.clusters.grad is not None
    assert summed.clusters.grad is not None
    assert torch.allclose(layer.clusters.grad, torch.ones(4, 6))
    assert torch.allclose(summed.clusters.grad, layer.sizes()[:, None].float().expand(4, 6))


def test_sizes() -> None:
    assert Cel.sized(CelConfig(budget="legcf"), 29_858, 40_981).clusters == 1606  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="12 are the least"):
        made(clusters=None, budget=11)
    with pytest.raises(UserError, match="more than the 50"):
        made(clusters=51)
