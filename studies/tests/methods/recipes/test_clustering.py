# SPDX-License-Identifier: Apache-2.0
"""CEL's events: how clusters split and exchange members, and runs that use them."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from legcf.core.config import RunConfig
from legcf.data.interactions import Dataset
from legcf.training.registry import resolve
from legcf_studies.methods.clustered.cel import Cel, CelConfig
from legcf_studies.methods.recipes.clustering import busiest, entity_gradients, halved, reassigned, squared_distances
from tests.helpers import planted
from tests.training.sessions import session, stopped


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(40, 40)


def configured(**options: Any) -> RunConfig:
    method = {"dim": 8, "clusters": 13, "cluster_epochs": 4, **options}
    training = {"epochs": 2, "batch_size": 128, "checkpoint_seconds": 0}
    return resolve("cel", overrides={"method": method, "training": training})


def test_a_split_parts_two_groups_of_gradients() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 60)
    direction = rng.standard_normal(5)
    gradients = (np.outer(2 * group - 1, direction) + 0.1 * rng.standard_normal((60, 5)) + 3).astype(np.float32)
    assigned = np.repeat([0, 1], 30).astype(np.int32)
    after = halved(assigned, gradients, np.array([1]))
    assert (after[:30] == 0).all()
    assert len(set(zip(after[30:].tolist(), group[30:].tolist(), strict=True))) == 2
    assert set(after[30:]) == {1, 2}


def test_equal_gradients_are_parted_by_the_median() -> None:
    after = halved(np.zeros(7, np.int32), np.ones((7, 3), np.float32), np.array([0]))
    assert sorted(np.bincount(after)) == [3, 4]


def test_the_busiest_have_most_interactions_and_can_be_split() -> None:
    assigned = np.array([0, 0, 1, 2, 2, 3, 3])
    chosen = busiest(assigned, np.array([1.0, 1, 100, 5, 5, 2, 1]), 2)
    assert chosen.tolist() == [2, 3]


def test_moves_never_raise_their_cost_and_desert_no_cluster() -> None:
    rng = np.random.default_rng(0)
    users, clusters = 40, 10
    assigned = np.concatenate([np.arange(40) % 5, 5 + np.arange(30) % 5]).astype(np.int32)
    vectors, gradients = (rng.standard_normal(shape).astype(np.float32) for shape in ((clusters, 4), (70, 4)))
    movable = rng.random(70) < 0.8
    settings = CelConfig(name="cel", nearest_clusters=4, stiffness=0.1)
    after = reassigned(assigned, vectors, gradients, users, settings, movable)
    assert (after != assigned).any()
    assert (after[~movable] == assigned[~movable]).all()
    assert (after[:users] < 5).all()
    assert (after[users:] >= 5).all()
    assert np.bincount(after, minlength=clusters).min() > 0
    slope = (gradients * (vectors[after] - vectors[assigned])).sum(axis=1)
    assert (slope[after != assigned] < 0).all()  # the quadratic part is never negative, so the whole falls below 0
    assert squared_distances(vectors).min() >= 0


def test_gradients_are_those_of_the_rows(dataset: Dataset) -> None:
    running = session(dataset, configured())
    found = entity_gradients(running, 1, np.random.default_rng(3))
    batch = next(running.sampler.epoch(np.random.default_rng(3)))
    rows = running.model.layer.table().detach().requires_grad_()
    operator = running.model._views[-1].operator
    vectors = running.model.backbone.propagate(operator, rows)[torch.from_numpy(batch.entities)]
    running.loss_of(vectors, batch).backward()  # type: ignore[no-untyped-call]
    assert rows.grad is not None
    assert np.allclose(found, rows.grad.numpy(), atol=1e-6)


def test_clusters_grow_to_what_is_allowed(dataset: Dataset) -> None:
    running = session(dataset, configured())
    running.run()
    counts = [line["clusters"] for line in running.lines if "clusters" in line]
    assert counts == [8, 13, 13]  # nothing happens in the third epoch
    layer = cast(Cel, running.model.layer)
    assert layer.num_params() == 13 * 8
    assert layer.sizes().min() > 0
    assert layer.sizes().sum() == 80


@pytest.mark.parametrize("stage", ["cluster", "train"])
def test_a_stopped_run_goes_on_to_the_same_end(stage: str, dataset: Dataset, tmp_path: Path) -> None:
    whole = session(dataset, configured())
    whole.run()
    stopped(dataset, configured(), tmp_path, lambda run: (run.lines[-1]["stage"], run.lines[-1]["epoch"]) == (stage, 2))
    resumed = session(dataset, configured(), tmp_path)
    assert resumed.resume()
    resumed.run()
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name
