# SPDX-License-Identifier: Apache-2.0
"""MagPrune: which values stay, within a budget, and that nothing else changes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset, Interactions
from legcf.training.loop import TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train
from legcf.training.run_folder import TrainedModel
from legcf_studies.methods.sized.magprune import MagPrune, MagPruneConfig
from tests.helpers import planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(52, 48, cold=2)


def trained(dataset: Dataset, folder: Path | None = None, **method: Any) -> TrainedModel:
    config = resolve("magprune", overrides={"method": {"dim": 8, **method}, "training": {"epochs": 2}})
    return train(dataset, config, TrainingOptions(folder, quiet=True))


def test_rows_keep_their_largest_and_the_table_its_own() -> None:
    layer = MagPrune(MagPruneConfig(dim=4, max_entries=8, row_entries=1), 2, 2)
    table = torch.tensor([[9.0, 8, 7, -6], [0.1, 0.2, -0.3, 0], [5, 1, 1, 4], [0.5, 0.4, 0.3, 0.2]])
    layer.weight.data.copy_(table)
    expected = torch.tensor([[9.0, 8, 7, -6], [0, 0, -0.3, 0], [5, 0, 0, 4], [0.5, 0, 0, 0]])
    assert torch.equal(table * layer.survivors(1), expected)
    layer.prune(layer.survivors(1))
    assert torch.equal(layer.table(), expected)
    assert layer.lengths.tolist() == [4, 1, 2, 1]
    assert layer.num_params() == 8


def test_a_budget_is_met_in_values_and_in_bytes(dataset: Dataset) -> None:
    assert trained(dataset, budget=300).metrics["num_params"] == 300
    by_bytes = trained(dataset, budget="1.7kB")
    assert 1690 < by_bytes.metrics["storage_bytes"] <= 1700 == 320 * 5 + 100
    with pytest.raises(UserError, match="lower it"):
        trained(dataset, budget=300, row_entries=4)


def test_validation_chooses_how_many_a_row_keeps(dataset: Dataset) -> None:
    line = next(line for line in trained(dataset, budget=300).curve if line["stage"] == "prune")
    assert line["row_entries"] in (0, 1, 2, 3)
    none = replace(dataset, validation=Interactions.empty(dataset.num_users, dataset.num_items))
    assert trained(none, budget=300).curve[-1]["row_entries"] == 0


def test_what_is_pruned_is_what_is_kept(dataset: Dataset) -> None:
    model = trained(dataset, budget=300)
    assert int(np.count_nonzero(model.model.layer.table().detach().numpy())) <= 300
    config = resolve("magprune", overrides={"training": {"keep": "best-of-all"}})
    with pytest.raises(UserError, match=r"training\.keep"):
        train(dataset, config, TrainingOptions(quiet=True))
