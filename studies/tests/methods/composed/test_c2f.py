# SPDX-License-Identifier: Apache-2.0
"""C2F-MetaEmbed: the refined codebook and its graph, sizes within a budget, and a run of both parts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.graph.adjacency import bipartite
from legcf.training.loop import TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train
from legcf.training.run_folder import load_model
from legcf_studies.methods.composed.c2f import C2f, C2fConfig
from tests.helpers import planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(52, 48, cold=2)


def made(dataset: Dataset, **options: Any) -> C2f:
    layer = C2f(C2fConfig(**{"dim": 8, "c": 12, **options}), dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(0))
    return layer


def test_refined_rows_and_graph_are_those_of_the_formula(dataset: Dataset) -> None:
    layer = made(dataset, fine_t=2)
    coarse = layer.codebook.detach().clone()
    assert torch.equal(layer.meta_rows(), coarse)
    layer.refine(dataset.train, np.random.default_rng(1))
    fine, theta = layer.fine.detach().numpy(), float(layer.threshold)
    soft = np.sign(fine) * np.maximum(np.abs(fine) - theta, 0)
    assert 0 < np.count_nonzero(soft) < soft.size
    second = np.zeros((12, 4), np.float32)
    np.put_along_axis(second, layer.fine_indices.numpy(), layer.fine_weights.numpy(), axis=1)
    expected = 0.8 * coarse.numpy() + 0.2 * second @ soft
    assert np.allclose(layer.meta_rows().detach(), expected, atol=1e-5)
    assert np.allclose(layer.input_rows().detach()[100:], np.vstack([expected, soft]), atol=1e-5)
    graph = layer.graph(bipartite(dataset.train)).toarray()
    assert graph.shape == (116, 116)
    assert np.allclose(graph, graph.T)
    assert np.allclose(graph[100:112, 112:], second, atol=1e-6)
    assert np.allclose(graph[:100, 100:112], layer.assignment.to_csr().toarray())
    assert not graph[:100, 112:].any()
    assert not graph[100:112, 100:112].any()


def test_a_budget_is_used_and_never_passed(dataset: Dataset) -> None:
    assert 380 < made(dataset, c=None, budget=400).num_params() <= 400
    assert 1950 < made(dataset, c=None, budget="2kB").storage_bytes() <= 2000
    for budget in (100, "100B"):
        with pytest.raises(UserError, match="are the least here"):
            made(dataset, c=None, budget=budget)


def test_a_run_refines_what_legcf_has_learned(dataset: Dataset, tmp_path: Path) -> None:
    config = resolve("c2f", overrides={"method": {"dim": 8, "c": 12}, "training": {"epochs": 2, "keep": "last-stage"}})
    model = train(dataset, config, TrainingOptions(tmp_path, quiet=True))
    assert [line["stage"] for line in model.curve if line["epoch"] == 1] == ["pretrain", "alternate", "refine"]
    layer = load_model(tmp_path).model.layer
    assert isinstance(layer, C2f)
    assert layer.refined
    assert torch.equal(layer.meta_rows(), model.model.layer.meta_rows())
