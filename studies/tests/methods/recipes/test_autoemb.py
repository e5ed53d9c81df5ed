# SPDX-License-Identifier: Apache-2.0
"""AutoEmb's alternation on graphs where it is known which candidate is of use."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from legcf.data.interactions import Dataset
from legcf.training.learning.autograd import AutogradLearner
from legcf.training.loop import Session
from legcf_studies.methods.recipes.autoemb import SearchWidths
from legcf_studies.methods.sized.autoemb import AutoEmb
from studies.tests.methods.recipes.searches import configured, stopped_and_resumed, without_time
from tests.helpers import COMMUNITIES, planted
from tests.training.sessions import session

SMALL: dict[str, Any] = {"dim": 8, "widths": [1, 4], "hidden": 16, "search_epochs": 2, "controller_every": 1}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(40, 40)


def layer_of(running: Session) -> AutoEmb:
    return cast(AutoEmb, running.model.layer)


def values(running: Session) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in running.model.named_parameters()}


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def begun(dataset: Dataset, **method: Any) -> tuple[Session, SearchWidths]:
    running = session(dataset, configured("autoemb", SMALL | method))
    stage = cast(SearchWidths, running.stages[0])
    running._enter(stage)
    stage.before_epoch(running, 1)
    return running, stage


@pytest.mark.parametrize("squash", [True, False])
def test_model_and_controller_take_turns(squash: bool, dataset: Dataset) -> None:
    running, stage = begun(dataset, squash=squash)
    batch = next(running.sampler.epoch(np.random.default_rng(0)))
    before = values(running)
    stage.controller_step(running, batch)
    between = values(running)
    running.step(batch)
    after = values(running)
    assert moved(before, between)
    assert all(name.startswith("layer.controller.") for name in moved(before, between))
    assert "layer.tables" in moved(between, after)
    assert not any(name.startswith("layer.controller.") for name in moved(between, after))


@pytest.mark.parametrize(("good", "bad"), [(0, 1), (1, 0)])
def test_the_controller_turns_from_a_useless_candidate(good: int, bad: int, dataset: Dataset) -> None:
    """One candidate knows everybody's community, the other is noise; nothing but the controller learns."""
    running, stage = begun(dataset, widths=[4, 5], controller_rate=0.02, squash=False)
    plain = running.config.training.model_copy(update={"loss": "softmax", "temperature": 1.0})
    running.config = running.config.model_copy(update={"training": plain})
    running.learner = AutogradLearner(running.model, plain)
    layer = layer_of(running)
    columns = [slice(0, 4), slice(4, 9)]
    layer.tables.data.normal_(generator=torch.Generator().manual_seed(0))
    layer.maps.data.zero_()
    for place in columns:
        layer.maps.data[:, place, : place.stop - place.start] = 2 * torch.eye(place.stop - place.start)
    layer.tables.data[:, columns[good]] = 0.0
    communities = torch.arange(40).repeat(2) % COMMUNITIES
    layer.tables.data[torch.arange(80), columns[good].start + communities] = 1.0
    assert running.held_out is not None
    sampler = running.sampler_of(running.held_out)
    for _ in range(40):
        for batch in sampler.epoch(running.rng):
            stage.controller_step(running, batch)
            stage.after_step(running, batch)
    weights = layer.entity_weights().mean(dim=0)
    assert weights[good] > 0.9 > 0.1 > weights[bad]


@pytest.mark.parametrize("selection", ["soft", "hard"])
@pytest.mark.parametrize("reinitialise", [True, False])
def test_weights_stand_in_the_second_stage(selection: str, reinitialise: bool, dataset: Dataset) -> None:
    told: list[torch.Tensor] = []
    running = session(
        dataset,
        configured("autoemb", SMALL | {"selection": selection, "reinitialise": reinitialise}),
        on_epoch=lambda line: told.append(layer_of(running).entity_weights().detach().clone()),
    )
    trainable = layer_of(running).total_trainable()
    running.run()
    stages = [line["stage"] for line in running.lines]
    assert stages == ["search"] * 2 + ["train"] * 3
    assert not torch.equal(told[0], told[1])
    assert torch.equal(told[2], told[4])
    assert running.held_out is None
    assert running.state.best_at[0] == 1
    assert (layer_of(running).entity_sizes() is None) == (selection == "soft")
    assert layer_of(running).total_trainable() == trainable  # the controller counts, though its stage is over


def test_the_controller_learns_from_held_out_pairs_alone(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    running = session(dataset, configured("autoemb", SMALL | {"controller_every": 2}, batch_size=20))
    seen: list[tuple[int, int]] = []

    def watch(stage: SearchWidths, session: Session, batch: Any) -> float:
        assert session.held_out is not None
        users, items = batch.entities[batch.users], batch.entities[batch.positives] - batch.num_users
        apart = set(zip(session.held_out.users().tolist(), session.held_out.items.tolist(), strict=True))
        pairs = list(zip(users.tolist(), items.tolist(), strict=True))
        assert set(pairs) <= apart
        seen.extend(pairs)
        return 0.0

    monkeypatch.setattr(SearchWidths, "controller_step", watch)
    running.run()
    assert len(seen) > len(set(seen)) > 0


@pytest.mark.parametrize("after", [1, 2, 3, 4])
@pytest.mark.parametrize("method", [{}, {"squash": False, "selection": "hard", "reinitialise": True}])
def test_a_stopped_search_ends_with_the_same_sizes(
    after: int, method: dict[str, Any], dataset: Dataset, tmp_path: Path
) -> None:
    config = configured("autoemb", SMALL | method, checkpoint_seconds=0)
    whole = session(dataset, config)
    whole.run()
    resumed = stopped_and_resumed(dataset, config, tmp_path, after)
    assert without_time(resumed.lines) == without_time(whole.lines)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name


def test_without_time_it_has_what_it_found(dataset: Dataset) -> None:
    running = session(
        dataset, configured("autoemb", SMALL | {"search_epochs": 9, "reinitialise": True}, max_minutes=1e-6)
    )
    running.run()
    assert [line["stage"] for line in running.lines] == ["search", "train"]
    assert layer_of(running).settled
