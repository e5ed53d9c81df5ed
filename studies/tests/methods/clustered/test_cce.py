# SPDX-License-Identifier: Apache-2.0
"""CCE: sums of two rows by chunk, clusters of them, and sizes within a budget."""

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.training.loop import TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train
from legcf_studies.methods.clustered.cce import Cce, CceConfig
from legcf_studies.methods.recipes.quantising import k_means
from tests.helpers import planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(52, 48, cold=2)


def made(dataset: Dataset, config: CceConfig) -> Cce:
    layer = Cce(config, dataset.num_users, dataset.num_items)
    layer.initialise(dataset.train, np.random.default_rng(0))
    return layer


def test_a_chunk_is_the_sum_of_its_two_rows(dataset: Dataset) -> None:
    layer = made(dataset, CceConfig(dim=8, chunks=2, buckets=5))
    first, second = layer.table_rows(torch.tensor([7]))[0].tolist()[1]
    assert first < 5 <= second
    expected = layer.weight[1, first] + layer.weight[1, second]
    assert torch.allclose(layer.rows(torch.tensor([7]))[0, 4:], expected)


def test_clusters_keep_more_of_the_rows_than_hashes_do(dataset: Dataset) -> None:
    layer = made(dataset, CceConfig(dim=8, chunks=2, buckets=12))
    rows = torch.from_numpy(np.random.default_rng(1).standard_normal((100, 8)).astype(np.float32))
    for chunk, part in enumerate(torch.chunk(rows, 2, dim=1)):
        centres, nearest = k_means(part.contiguous(), 12, np.random.default_rng(2))
        layer.recluster(chunk, centres, nearest, part - centres[nearest])
        clustered = layer.table()[:, 4 * chunk : 4 * chunk + 4].detach()
        assert (clustered - part).square().sum() <= (centres[nearest] - part).square().sum()
        assert (clustered - part).square().sum() < 0.5 * part.square().sum()


def test_a_run_clusters_and_then_trains(dataset: Dataset) -> None:
    config = resolve("cce", overrides={"method": {"dim": 8, "cluster_epochs": 2}, "training": {"epochs": 3}})
    model = train(dataset, config, TrainingOptions(quiet=True))
    stages = [line["stage"] for line in model.curve]
    assert stages.count("cluster") == 2
    assert stages.count("train") >= 1
    assert model.curve[0]["moved"] > 0.5


def test_a_budget_is_used_and_never_passed(dataset: Dataset) -> None:
    assert 780 < made(dataset, CceConfig(dim=8, budget=800)).num_params() <= 800
    assert 1900 < made(dataset, CceConfig(dim=8, budget="2kB")).storage_bytes() <= 2000
    with pytest.raises(UserError, match="bytes are too few"):
        made(dataset, CceConfig(dim=8, budget="100B"))
    with pytest.raises(UserError, match="equal width"):
        resolve("cce", overrides={"method": {"dim": 9}})
