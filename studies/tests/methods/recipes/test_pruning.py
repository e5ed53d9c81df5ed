# SPDX-License-Identifier: Apache-2.0
"""Search and retraining of pruned tables."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from legcf.core.config import RunConfig
from legcf.data.interactions import Dataset
from legcf.training.loop import Session
from legcf.training.registry import resolve
from legcf.training.sampler import TrainingBatch
from legcf_studies.methods.recipes.pruning import PushedSearch, RetrainPruned, SearchPruned
from legcf_studies.methods.sized.cerp import Cerp
from legcf_studies.methods.sized.pep import PrunedLayer
from tests.helpers import planted
from tests.training.sessions import session, stopped

KEPT = 80
SMALL: dict[str, dict[str, Any]] = {
    "pep": {"dim": 8, "budget": KEPT},
    "cerp": {"dim": 8, "budget": KEPT, "buckets": 20},
}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(40, 40)


def configured(method: str, **options: Any) -> RunConfig:
    training = {"epochs": 3, "batch_size": 64, "checkpoint_seconds": 0}
    return resolve(method, overrides={"method": {**SMALL[method], **options}, "training": training})


def layer_of(running: Session) -> PrunedLayer:
    return cast(PrunedLayer, running.model.layer)


@pytest.mark.parametrize("method", sorted(SMALL))
class TestPruning:
    def test_the_target_is_reached_and_survivors_start_at_their_first_values(
        self, method: str, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running = session(dataset, configured(method))
        table = layer_of(running).pruned
        first = table.first_values()
        seen: dict[str, torch.Tensor] = {}
        begin = RetrainPruned.begin

        def watched(stage: RetrainPruned, running: Session) -> dict[str, Any]:
            seen["alive"] = table() != 0
            told = begin(stage, running)
            seen["start"] = table().detach().clone()
            return told

        monkeypatch.setattr(RetrainPruned, "begin", watched)
        running.run()
        assert 0 < seen["alive"].sum() <= KEPT
        assert torch.equal(seen["start"], first * seen["alive"])
        told = next(line for line in running.lines if "kept" in line)
        assert told["target_reached"]
        assert told["kept"] == layer_of(running).num_params() == seen["alive"].sum()
        assert not table()[~seen["alive"]].any()
        assert not torch.equal(table(), seen["start"])

    def test_a_search_that_is_too_short_keeps_the_largest_and_says_so(self, method: str, dataset: Dataset) -> None:
        running = session(dataset, configured(method, search_epochs=1))
        running.run()
        told = next(line for line in running.lines if "kept" in line)
        assert not told["target_reached"]
        assert layer_of(running).num_params() == KEPT

    @pytest.mark.parametrize("after", [2, "retrain"])
    def test_a_stopped_run_goes_on_to_the_same_end(
        self, method: str, after: int | str, dataset: Dataset, tmp_path: Path
    ) -> None:
        config = configured(method)
        whole = session(dataset, config)
        whole.run()

        def is_there(running: Session) -> bool:
            line = running.lines[-1]
            return (line["stage"], line["epoch"]) == ("retrain", 2) or line["epoch"] == after

        stopped(dataset, config, tmp_path, is_there)
        resumed = session(dataset, config, tmp_path)
        assert resumed.resume()
        resumed.run()
        for name, tensor in whole.model.state_dict().items():
            assert torch.equal(resumed.model.state_dict()[name], tensor), name
        assert [line["loss"] for line in resumed.lines] == [line["loss"] for line in whole.lines]


def test_weight_decay_alone_raises_thresholds(dataset: Dataset) -> None:
    """Without any loss, what is above the threshold only gets less."""
    running = session(dataset, configured("pep", threshold_decay=1e-5))
    stage = SearchPruned("search", 1)
    stage.before_epoch(running, 1)
    table = layer_of(running).pruned
    counts = [table.count()]
    batch = next(running.sampler.epoch(np.random.default_rng(0)))
    for _ in range(60):
        stage.before_step(running, batch)
        running.optimiser.zero_grad()
        (0 * table().sum()).backward()
        running.optimiser.step()
        counts.append(table.count())
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < counts[0]


def test_the_push_halves_every_epoch_and_ends_with_the_search(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = session(dataset, configured("cerp", push=1.0))
    weights: dict[int, float] = {}
    before = PushedSearch.before_step

    def watched(stage: PushedSearch, running: Session, batch: TrainingBatch) -> None:
        before(stage, running, batch)
        pushed = cast(Cerp, running.model.layer).pushed
        assert pushed is not None
        weights[running.state.epoch] = pushed[1]

    monkeypatch.setattr(PushedSearch, "before_step", watched)
    running.run()
    assert weights == {epoch: 0.5**epoch for epoch in range(len(weights))}
    assert len(weights) > 1
    assert running.model.layer.penalty() is None
