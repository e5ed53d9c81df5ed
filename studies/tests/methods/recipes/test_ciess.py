# SPDX-License-Identifier: Apache-2.0
"""The search of CIESS: what it tries, what it keeps, and that a stop in the middle changes nothing."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.config import RunConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.ranking.ranking import Ranking
from legcf.training.loop import Session, TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train
from legcf_studies.methods.recipes import ciess
from legcf_studies.methods.recipes.ciess import SearchSizes, entity_quality
from legcf_studies.methods.recipes.td3 import Td3Settings
from legcf_studies.methods.sized.ciess import Ciess, CiessConfig
from tests.helpers import interactions, planted
from tests.training.sessions import session, stopped

SMALL: dict[str, Any] = {
    "dim": 8, "budget": None, "target": 0.5, "pretrain_epochs": 1, "episodes": 2, "episode_steps": 2, "trial_steps": 3,
    "updates": 3, "hidden": 16, "held_out": 0.2,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eighty entities fill no batch of thousands."""
    monkeypatch.setattr(ciess, "Td3Settings", partial(Td3Settings, batch_size=256))


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(40, 40)


def configured(method: dict[str, Any] | None = None, **training: Any) -> RunConfig:
    quick = {"epochs": 2, "batch_size": 100, "negatives": 20, "checkpoint_seconds": 0}
    return resolve("ciess", overrides={"method": SMALL | (method or {}), "training": quick | training})


def widths(running: Session) -> torch.Tensor:
    layer = running.model.layer
    assert isinstance(layer, Ciess)
    return layer.widths.clone()


def trials(running: Session) -> list[dict[str, Any]]:
    return [line["search"] for line in running.lines if line["stage"] == "search" and line["epoch"]]


def test_every_trial_is_told_and_the_best_that_fits_is_retrained(dataset: Dataset) -> None:
    running = session(dataset, configured({"fit": "every"}))
    running.run()
    told = trials(running)
    assert len(told) == 4
    assert all(80 <= trial["values"] <= 320 for trial in told)
    assert [trial["best"] for trial in told] == np.maximum.accumulate([trial["quality"] for trial in told]).tolist()
    best = next(trial for trial in told if trial["quality"] == told[-1]["best"])
    assert running.model.layer.num_params() == best["values"] == told[-1]["best_values"]
    assert told[-1]["seconds_left"] == 0
    assert {line["stage"] for line in running.lines} == {"pretrain", "search", "retrain"}
    assert running.state.best_at[0] == 2
    assert widths(running).min() >= 1
    assert (running.model.layer.table()[0] == 0).sum() >= 8 - widths(running)[0]


def test_validation_is_not_asked_before_the_retraining(dataset: Dataset) -> None:
    running = session(dataset, configured())
    running.run()
    assert all(("validation" in line) == (line["stage"] == "retrain" and line["epoch"] > 0) for line in running.lines)


def test_if_no_trial_fits_the_smallest_is_scaled_down(dataset: Dataset) -> None:
    running = session(dataset, configured({"fit": "last", "budget": 100, "noise": 0.0, "size_penalty": 0.0}))
    running.run()
    assert min(trial["values"] for trial in trials(running)) > 100
    assert 80 <= running.model.layer.num_params() <= 100


def test_a_search_without_time_ends_with_sizes_that_fit(dataset: Dataset) -> None:
    running = session(dataset, configured(max_minutes=1e-9))
    running.run()
    assert not trials(running)
    assert running.model.layer.num_params() == 320


def test_a_price_beyond_all_quality_drives_sizes_to_1(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "step", lambda self, batch: 0.0)
    config = configured(
        {"size_penalty": 10.0, "fit": "last", "episodes": 30, "episode_steps": 1, "updates": 15, "target": 0.13,
         "noise": 0.0, "discount": 0.0, "start": "fresh", "trial_steps": 1}
    )  # fmt: skip
    running = session(dataset, config)
    running.run()
    values = [trial["values"] for trial in trials(running)]
    assert values[0] > 200
    assert values[-1] < 1.1 * 80
    assert widths(running).float().mean() < 1.1


@pytest.mark.parametrize("start", ["fresh", "pretrained"])
@pytest.mark.parametrize("after", [2, 4, 5, 7])
def test_a_stopped_search_ends_with_the_same_sizes(after: int, start: str, dataset: Dataset, tmp_path: Path) -> None:
    config = configured({"start": start, "replay_rows": 20})
    folders = [tmp_path / name for name in ("whole", "broken")]
    for folder in folders:
        folder.mkdir()
    whole = session(dataset, config, folders[0])
    whole.run()
    stopped(dataset, config, folders[1], lambda run: sum(line["epoch"] > 0 for line in run.lines) == after)
    resumed = session(dataset, config, folders[1])
    assert resumed.resume()
    resumed.run()
    assert torch.equal(widths(resumed), widths(whole))
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name


def test_the_seed_decides(dataset: Dataset) -> None:
    runs = [session(dataset, configured()) for _ in range(2)]
    for running in runs:
        running.run()
    assert torch.equal(widths(runs[0]), widths(runs[1]))


def test_principal_axes_leave_scores_alone(dataset: Dataset) -> None:
    running = session(dataset, configured())
    before = running.model.entity_vectors()
    ciess._turn_to_principal_axes(running)
    after = running.model.entity_vectors()
    assert np.allclose(after @ after.T, before @ before.T, atol=1e-5)
    energy = np.square(after).sum(axis=0)
    assert (np.diff(energy) <= 1e-4).all()


def test_quality_of_users_and_of_the_items_they_know() -> None:
    vectors = np.eye(3, dtype=np.float32)
    seen = interactions([(0, 1), (1, 0), (1, 2), (2, 0)], 3, 3)
    truth = interactions([(0, 0), (1, 1)], 3, 3)
    quality, known = entity_quality(Ranking(vectors, vectors, seen), truth)
    assert known.tolist() == [True, True, False, True, True, True]
    assert quality[:2].tolist() == [1, 1]  # each finds its own item first
    assert quality[3:].tolist() == [1, 1, 1]
    flipped = np.array([[0, 1, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32)
    quality, _ = entity_quality(Ranking(flipped, vectors, interactions([(0, 2)], 3, 3)), truth)
    assert 0 < quality[0] < quality[1] == 1
    assert quality[5] == quality[0]  # the item of user 0 alone


class TestBadInput:
    def test_the_smallest_budget_is_named(self, dataset: Dataset) -> None:
        with pytest.raises(UserError, match="80 are the least"):
            train(dataset, configured({"budget": 79}), TrainingOptions(quiet=True))

    @pytest.mark.parametrize(
        ("option", "value"),
        [("target", 0), ("held_out", 1), ("episode_steps", 0), ("size_penalty", -1), ("search_share", 2)],
    )
    def test_options_out_of_range(self, option: str, value: float) -> None:
        with pytest.raises(UserError, match=rf"method\.{option}"):
            configured({option: value})

    def test_edge_folds_cannot_go_with_it(self, dataset: Dataset) -> None:
        with pytest.raises(UserError, match="edge_folds"):
            train(dataset, configured(edge_folds=2), TrainingOptions(quiet=True))


def test_a_stage_an_epoch_a_trial() -> None:
    assert SearchSizes(CiessConfig()).epochs == 330
