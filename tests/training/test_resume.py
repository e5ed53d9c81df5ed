# SPDX-License-Identifier: Apache-2.0
"""A run that is killed anywhere and resumed ends with the very weights of one that was not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.config import RunConfig
from legcf.data.interactions import Dataset
from legcf.training.loop import Session
from legcf.training.registry import resolve
from tests.helpers import planted
from tests.training.sessions import session

# Learning rates relative to the weights there are when a stage asks for a new optimiser, which is not at the start.
SEARCHES: dict[str, dict[str, Any]] = {
    "pep": {"dim": 4, "budget": 60, "search_epochs": 3},
    "lightrec": {"dim": 4, "books": 2, "codewords": 4, "teacher_epochs": 2, "code_epochs": 2, "recode_every": 2},
    "autoemb": {"dim": 4, "widths": [1, 2], "search_epochs": 2, "hidden": 4, "selection": "hard"},
    "optembed": {"dim": 4, "supernet_epochs": 2, "generations": 2, "mutants": 2, "crossovers": 2},
}
KILLS = 20


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(24, 24)


def configured(method: str) -> RunConfig:
    training = {"epochs": 3, "batch_size": 32, "scale_lr_by_rms": True, "checkpoint_seconds": 0, "keep": "last"}
    return resolve(method, overrides={"method": SEARCHES[method], "training": training})


def run(dataset: Dataset, config: RunConfig, folder: Path | None, kill_at: float = np.inf) -> tuple[Session, int]:
    """Run to the end, or until so many steps and epochs were begun; a run that has been there before is resumed."""
    running, moments = session(dataset, config, folder), 0

    def count(*_: Any) -> None:
        nonlocal moments
        moments += 1
        if moments > kill_at:
            raise KeyboardInterrupt

    for stage in running.stages:
        for hook in ("after_step", "after_epoch"):
            plain = getattr(stage, hook)
            setattr(stage, hook, lambda *given, plain=plain: (count(), plain(*given))[1])
    if folder is not None:
        running.resume()
    running.run()
    return running, moments


def test_the_rates_of_a_later_stage_come_back(dataset: Dataset, tmp_path: Path) -> None:
    """They were taken from the weights at its begin, which nobody knows any more."""
    config = configured("pep")
    whole, _ = run(dataset, config, tmp_path)
    resumed = session(dataset, config, tmp_path)
    assert resumed.resume()
    wanted = [group["scale"] for group in whole.optimiser.param_groups]
    assert [group["scale"] for group in resumed.optimiser.param_groups] == wanted
    assert wanted != [group["scale"] for group in session(dataset, config).optimiser.param_groups]


@pytest.mark.parametrize("method", sorted(SEARCHES))
def test_the_same_weights_wherever_it_is_killed(method: str, dataset: Dataset, tmp_path: Path) -> None:
    config = configured(method)
    whole, moments = run(dataset, config, None)
    wanted = whole.model.state_dict()
    for number, kill_at in enumerate(np.random.default_rng(0).integers(0, moments, -(-KILLS // len(SEARCHES)))):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(KeyboardInterrupt):
            run(dataset, config, folder, kill_at)
        resumed, _ = run(dataset, config, folder)
        found = resumed.model.state_dict()
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[name], wanted[name]) for name in wanted), f"killed after {kill_at} of {moments}"
        assert [line["loss"] for line in resumed.lines] == [line["loss"] for line in whole.lines]
