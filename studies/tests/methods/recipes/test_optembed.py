# SPDX-License-Identifier: Apache-2.0
"""OptEmbed's stages on graphs where it is known what they should find."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from legcf.data.interactions import Dataset
from legcf.training.loop import Session
from legcf_studies.methods.recipes import optembed
from legcf_studies.methods.recipes.optembed import Evolve, Genome
from legcf_studies.methods.sized.optembed import OptEmbed, OptEmbedConfig
from studies.tests.methods.recipes.searches import configured, stopped_and_resumed, without_time
from tests.helpers import planted
from tests.training.sessions import session

SMALL: dict[str, Any] = {
    "dim": 8, "supernet_epochs": 2, "generations": 3, "mutants": 3, "crossovers": 3, "parents": 4, "target": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(40, 40, cold=2)


def layer_of(running: Session) -> OptEmbed:
    return cast(OptEmbed, running.model.layer)


def evolved(monkeypatch: pytest.MonkeyPatch, dataset: Dataset, fitness: Any, **options: Any) -> tuple[Session, Evolve]:
    """A run in which `fitness` of the two widths judges the candidates."""

    def judge(running: Session, judges: int | None = None) -> float:
        widths = layer_of(running).widths
        return float(fitness(int(widths[0]), int(widths[-1])))

    monkeypatch.setattr(optembed, "held_out_score", judge)
    running = session(dataset, configured("optembed", SMALL | {"supernet_epochs": 1} | options, epochs=1))
    running.run()
    stage = running.stages[1]
    assert isinstance(stage, Evolve)
    return running, stage


def test_evolution_climbs(monkeypatch: pytest.MonkeyPatch, dataset: Dataset) -> None:
    running, stage = evolved(monkeypatch, dataset, lambda u, i: -((u - 3) ** 2) - (i - 6) ** 2, generations=9)
    lines = [line["search"] for line in running.lines if line["stage"] == "evolve"]
    best = [line["best"] for line in lines]
    assert best == sorted(best)
    assert stage.ranked()[0] == (3, 6)
    assert lines[-1]["trials"] == len(stage.tried) > 30  # none was tried twice
    assert all(1 <= width <= 8 for genome in stage.tried for width in genome)
    assert set(layer_of(running).entity_sizes()[:38]) == {3}
    assert set(layer_of(running).entity_sizes()[40:78]) == {6}


def test_widths_that_bring_nothing_are_dropped(monkeypatch: pytest.MonkeyPatch, dataset: Dataset) -> None:
    _, stage = evolved(monkeypatch, dataset, lambda u, i: min(u, 2) + min(i, 4), generations=12)
    assert stage.ranked()[0] == (2, 4)


def test_a_supernet_that_uses_two_columns_is_cut_to_them(dataset: Dataset) -> None:
    running = session(dataset, configured("optembed", SMALL | {"generations": 8}, batch_size=20, learning_rate=0.05))
    after_supernet = running._checkpoint

    def forget_columns(now: bool) -> None:
        if now and running.state.stage == 1:
            layer_of(running).weight.data[:, 2:] = 0
        after_supernet(now)

    running._checkpoint = forget_columns  # type: ignore[method-assign]
    running.run()
    last = [line["search"] for line in running.lines if line["stage"] == "evolve"][-1]
    assert max(last["users"], last["items"]) <= 2


def test_generations_are_the_seeds_and_leave_parents_as_they_were() -> None:
    layer = OptEmbed(OptEmbedConfig(**(SMALL | {"dim": 8})), 3, 3)
    made: list[list[Genome]] = []
    for seed in (1, 1, 2):
        stage = Evolve("evolve", 3, held_out=0.1)
        stage.tried = {(1, 1): 0.1, (8, 2): 0.5, (3, 3): 0.3}
        made.append(stage.generation(layer, np.random.default_rng(seed)))
        assert stage.tried == {(1, 1): 0.1, (8, 2): 0.5, (3, 3): 0.3}
        assert len(set(made[-1])) == len(made[-1]) == 6
        assert not set(made[-1]) & set(stage.tried)
    assert made[0] == made[1] != made[2]


def test_a_small_space_is_tried_out_and_no_more(monkeypatch: pytest.MonkeyPatch, dataset: Dataset) -> None:
    _, stage = evolved(monkeypatch, dataset, lambda u, i: u * i, dim=2, generations=4)
    assert len(stage.tried) == 4
    assert stage.ranked()[0] == (2, 2)


def test_every_candidate_is_within_the_budget(monkeypatch: pytest.MonkeyPatch, dataset: Dataset) -> None:
    running, stage = evolved(monkeypatch, dataset, lambda u, i: u + i, budget=200)
    assert all(40 * (u + i) <= 200 for u, i in stage.tried)
    assert layer_of(running).num_params() <= 200


def test_users_that_learn_nothing_are_dropped(dataset: Dataset) -> None:
    """Two users have no pairs, so nothing moves their rows; thresholds pass them and not the others."""
    method = SMALL | {"initial": "xavier", "threshold_rate": 1.0, "threshold_weight": 0.2, "generations": 0}
    running = session(dataset, configured("optembed", method, batch_size=10, learning_rate=0.1))
    running.run()
    layer = layer_of(running)
    assert layer.thresholds[0] > 0
    assert np.flatnonzero(~layer.kept()[:40]).tolist() == [38, 39]
    assert set(layer.entity_sizes()[:38]) == {8}


def test_the_supernet_draws_widths_and_leaves_the_full_ones(dataset: Dataset) -> None:
    running = session(dataset, configured("optembed", SMALL | {"generations": 0}))
    drawn: set[Genome] = set()
    step = running.step

    def watch(batch: Any) -> float:
        widths = layer_of(running).widths
        if running.state.stage == 0:
            drawn.add((int(widths[0]), int(widths[-1])))
        return step(batch)

    running.step = watch  # type: ignore[method-assign]
    running.run()
    assert len(drawn) > 3
    assert set(layer_of(running).widths[:38].tolist()) == {8}
    assert running.held_out is None
    assert running.state.best_at[0] == 2


@pytest.mark.parametrize("after", [1, 3, 4, 6])
def test_a_stopped_search_ends_with_the_same_sizes(after: int, dataset: Dataset, tmp_path: Path) -> None:
    config = configured("optembed", SMALL, checkpoint_seconds=0)
    whole = session(dataset, config)
    whole.run()
    resumed = stopped_and_resumed(dataset, config, tmp_path, after)
    assert without_time(resumed.lines) == without_time(whole.lines)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name


def test_without_time_it_has_what_it_found(dataset: Dataset) -> None:
    running = session(dataset, configured("optembed", SMALL | {"supernet_epochs": 9}, max_minutes=1e-6))
    running.run()
    assert [line["stage"] for line in running.lines] == ["supernet", "retrain"]
    layer = layer_of(running)
    assert not layer.searching
    first = layer.weight.detach().clone()
    layer.restart()
    assert not torch.equal(layer.weight, first)  # the supernet's values, not those before any training
