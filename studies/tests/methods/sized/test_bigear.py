# SPDX-License-Identifier: Apache-2.0
"""BiGeaR: layers as signs and scales, the same from bits, learned from a teacher."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.training.loop import TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train
from legcf.training.run_folder import load_model
from legcf_studies.methods.sized.bigear import Bigear, BigearConfig
from tests.helpers import dense_bipartite, dense_normalised, planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(52, 48, cold=2)


def made(dataset: Dataset, **options: Any) -> Bigear:
    layer = Bigear(BigearConfig(**{"dim": 6, **options}), dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(0))
    return layer


def test_rows_are_weighted_layers_and_then_their_signs(dataset: Dataset) -> None:
    layer = made(dataset)
    graph, rows = dense_normalised(dense_bipartite(dataset.train)), layer.weight.detach().numpy()
    layers = [rows / 3, graph @ rows * 2 / 3, graph @ graph @ rows]
    assert np.allclose(layer.table().detach(), np.hstack(layers), atol=1e-5)
    layer.coded.fill_(True)
    codes = [np.where(part >= 0, 1, -1) * np.abs(part).mean(axis=1, keepdims=True) for part in layers]
    assert np.allclose(layer.table().detach(), np.hstack(codes), atol=1e-5)


def test_bits_give_the_codes_back(dataset: Dataset) -> None:
    layer = made(dataset)
    layer.coded.fill_(True)
    before = layer.table().detach()
    layer.freeze()
    assert torch.allclose(layer.table(), before, atol=1e-6)
    assert layer.storage_bytes() == 100 * (3 + 3 * 4) + 1  # 18 bits and three scales an entity
    assert layer.num_params() == 100 * 3 * 2


def test_the_slope_of_a_sign_is_a_bell(dataset: Dataset) -> None:
    layer = made(dataset, layers=0)
    layer.coded.fill_(True)
    layer.weight.data.fill_(0.5)
    layer.rows(torch.tensor([3]))[0, 0].backward()  # type: ignore[no-untyped-call]
    assert layer.weight.grad is not None
    expected = 0.5 * np.exp(-0.25) / np.pi**0.5 + 1 / 6  # of the sign, and of the mean size
    assert abs(float(layer.weight.grad[3, 0]) - expected) < 1e-6


def test_the_teachers_first_items_lower_the_penalty(dataset: Dataset) -> None:
    layer = made(dataset)
    assert layer.penalty() is None
    users, items = layer.layer_vectors()[0]
    order = np.argsort(-users @ items.T, axis=1)
    penalties = []
    for chosen in (order[:, :5], order[:, -5:]):
        layer.taught = torch.arange(52), torch.from_numpy(np.stack([chosen] * 3))
        penalty = layer.penalty()
        assert penalty is not None
        penalties.append(float(penalty.detach()))
    assert penalties[0] < penalties[1]


def test_a_run_ends_in_bits_within_its_budget(dataset: Dataset, tmp_path: Path) -> None:
    overrides = {"method": {"budget": "2kB", "teacher_epochs": 2}, "training": {"epochs": 2}}
    model = train(dataset, resolve("bigear", overrides=overrides), TrainingOptions(tmp_path, quiet=True))
    assert [line["stage"] for line in model.curve if line["epoch"] == 1] == ["teach", "code"]
    assert 1900 < model.metrics["storage_bytes"] <= 2000
    assert torch.equal(load_model(tmp_path).model.layer.table(), model.model.layer.table())
    assert made(dataset, budget=1000).num_params() <= 1000
    with pytest.raises(UserError, match=r"backbone\.layers=0"):
        resolve("bigear", overrides={"backbone": {"layers": 2}})
