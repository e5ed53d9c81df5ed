# SPDX-License-Identifier: Apache-2.0
"""LERG's codebook: few levels, gradients through rounding, and the same rows from codes."""

from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf_studies.methods.composed.lerg import Lerg, LergConfig
from tests.helpers import planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(52, 48, cold=2)


def made(dataset: Dataset, **options: Any) -> Lerg:
    layer = Lerg(LergConfig(**{"dim": 8, "c": 10, **options}), dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(0))
    return layer


@pytest.mark.parametrize("bits", [2, 3, 8])
def test_values_are_steps_and_codes_give_them_back(dataset: Dataset, bits: int) -> None:
    layer = made(dataset, bits=bits)
    with torch.no_grad():
        levels, table = layer.quantised() / layer.step, layer.table()
    assert torch.allclose(levels, levels.round(), atol=1e-4)
    assert -(2 ** (bits - 1)) <= int(levels.min().round()) <= int(levels.max().round()) < 2 ** (bits - 1)
    layer.freeze()
    assert torch.allclose(layer.table(), table, atol=1e-6)
    assert layer.storage_bytes() == 10 * bits + 4 + 100 * 2  # 80 values, the step, and a byte an index


def test_gradients_pass_the_rounding_and_reach_the_step(dataset: Dataset) -> None:
    """Values inside the range pass theirs whole; the step has round(v) − v inside it, and the last level beyond."""
    layer = made(dataset, bits=3)
    layer.step.data.fill_(0.1)
    layer.quantised().sum().backward()  # type: ignore[no-untyped-call]
    inside = ((layer.codebook >= -0.4) & (layer.codebook <= 0.3)).float()
    assert layer.codebook.grad is not None
    assert layer.step.grad is not None
    assert torch.allclose(layer.codebook.grad, inside, atol=1e-6)
    scaled = layer.codebook.detach() / 0.1
    own = torch.where(inside > 0, scaled.round() - scaled, scaled.clamp(-4, 3)).sum() / (80 * 3) ** 0.5
    assert torch.allclose(layer.step.grad, own, atol=1e-4)


def test_fewer_bits_buy_more_rows(dataset: Dataset) -> None:
    rows = [made(dataset, c=None, bits=bits, budget=220).num_buckets for bits in (8, 4)]
    assert rows == [10, 20]
    layer = made(dataset, c=None, budget="350B")
    layer.freeze()
    assert 340 < layer.storage_bytes() <= 350
    with pytest.raises(UserError, match="too few"):
        made(dataset, c=None, budget=200)
