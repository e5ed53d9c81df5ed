# SPDX-License-Identifier: Apache-2.0
"""A run's folder: what stands in it, when it may be gone on with, and what is taken away."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.core.config import RunConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset, Interactions
from legcf.embeddings.budget import Budgeted
from legcf.embeddings.full import FullTableConfig
from legcf.embeddings.full_trained import FullTable
from legcf.export.build import build
from legcf.export.options import ExportOptions
from legcf.scoring.run_files import summary
from legcf.training.loop import TrainingOptions
from legcf.training.registry import METHODS, resolve
from legcf.training.run import build_model, train
from legcf.training.run_folder import remove_unfinished
from tests.helpers import planted


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(40, 40)


def configured(method: str = "qr", seed: int = 0, **training: Any) -> RunConfig:
    quick = {"epochs": 2, "batch_size": 200, **training}
    return resolve(method, seed=seed, overrides={"method": {"dim": 8, "budget": 400}, "training": quick})


@pytest.fixture(scope="module")
def finished(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    folder, told = tmp_path_factory.mktemp("runs") / "run", list[dict[str, Any]]()
    train(dataset, configured(), TrainingOptions(folder, quiet=True, on_epoch=told.append))
    return folder, told


def test_whoever_asks_is_told_every_line_that_is_written(finished: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, told = finished
    assert [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()] == told
    assert [line["epoch"] for line in told] == [0, 1, 2]


def test_sizes_left_to_the_data_stand_in_the_configuration(finished: tuple[Path, list[dict[str, Any]]]) -> None:
    saved = json.loads((finished[0] / "config.json").read_text())["method"]
    assert saved["m"] is not None
    assert configured().method.model_dump()["m"] is None


@pytest.mark.parametrize("method", sorted(METHODS))
def test_sizes_are_found_once_and_stay(method: str, dataset: Dataset) -> None:
    """A layer made from the settings of another has its sizes."""
    layer = METHODS[method].layer
    budget = {"budget": 20_000} if issubclass(layer.Config, Budgeted) else {}
    first = layer(resolve(method, overrides={"method": budget}).method, 40, 40)
    assert layer(first.config, 40, 40).config == first.config


def test_a_budget_decides_the_width_of_a_full_table_however_it_is_made() -> None:
    layer = FullTable(FullTableConfig(dim=64, budget=330), 40, 40)
    assert (layer.config.dim, layer.width, layer.num_params()) == (4, 4, 320)


def test_a_finished_run_resumed_is_the_same_run(finished: tuple[Path, list[dict[str, Any]]], dataset: Dataset) -> None:
    folder, told = finished
    again = train(dataset, configured(), TrainingOptions(folder, resume=True, quiet=True))
    assert again.curve == told


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed = 0, now it is 1"),
        ({"learning_rate": 0.5}, "was started with training.learning_rate"),
        ({"method": "full"}, "was started with method."),
    ],
)
def test_other_settings_do_not_go_on_with_it(
    change: dict[str, Any], said: str, finished: tuple[Path, list[dict[str, Any]]], dataset: Dataset
) -> None:
    with pytest.raises(UserError) as error:
        train(dataset, configured(**change), TrainingOptions(finished[0], resume=True, quiet=True))
    assert said in str(error.value)


def test_other_data_do_not_go_on_with_it(finished: tuple[Path, list[dict[str, Any]]]) -> None:
    with pytest.raises(UserError, match="was started on other data"):
        train(planted(40, 40, seed=1), configured(), TrainingOptions(finished[0], resume=True, quiet=True))


def test_folders_that_cannot_be_used(
    finished: tuple[Path, list[dict[str, Any]]], dataset: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="add --resume"):
        train(dataset, configured(), TrainingOptions(finished[0], quiet=True))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="holds no run to resume"):
        train(dataset, configured(), TrainingOptions(tmp_path, resume=True, quiet=True))
    with pytest.raises(UserError, match="is a file"):
        train(dataset, configured(), TrainingOptions(tmp_path / "file", quiet=True))
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(UserError, match="not the configuration of a run"):
        train(dataset, configured(), TrainingOptions(tmp_path, resume=True, quiet=True))


def test_nothing_to_learn_from(dataset: Dataset) -> None:
    empty = Interactions.empty(40, 40)
    bare = Dataset("bare", "ratio", dataset.users, dataset.items, empty, dataset.validation, dataset.test)
    with pytest.raises(UserError, match="bare has no training pairs"):
        train(bare, configured(), TrainingOptions(quiet=True))


def test_a_run_that_failed_early_leaves_nothing_behind(
    finished: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    (tmp_path / "failed").mkdir()
    (tmp_path / "failed" / "config.json").write_text("{}")
    remove_unfinished(tmp_path / "failed")
    assert not (tmp_path / "failed").exists()
    remove_unfinished(finished[0])  # there is something to resume
    assert (finished[0] / "metrics.json").exists()


def test_the_seed_decides_the_model(dataset: Dataset) -> None:
    tables = [build_model(configured(), dataset, np.random.default_rng(seed), None).layer.table() for seed in (0, 0, 1)]
    assert tables[0].equal(tables[1])
    assert not tables[0].equal(tables[2])


def test_fast_has_lists_and_chooses_nothing(dataset: Dataset) -> None:
    config = resolve(preset="fast", overrides={"method": {"c": 8, "dim": 8}})
    trained = train(dataset, config, TrainingOptions(quiet=True))
    assert trained.metrics["list_entries"] > 0
    assert trained.metrics["test"]["recall@20"] > 0.99
    assert not {"choose", "lists"} & {line["stage"] for line in trained.curve}
    assert trained.config.ranking.list_weight == config.ranking.list_weight


def test_seconds_are_those_of_choosing_as_well(dataset: Dataset) -> None:
    config = resolve("popularity")
    alone, final = (train(dataset, config, TrainingOptions(quiet=True, final=final)).metrics for final in (False, True))
    assert alone["seconds"]["whole"] == alone["seconds"]["this_session"]
    assert final["seconds"]["whole"] == final["seconds"]["this_session"] + final["seconds_to_choose"]
    assert summary(final)["seconds"] == final["seconds"]["whole"]


@pytest.mark.parametrize("width", [8, 16])
def test_all_methods_are_compared_with_one_full_table(width: int, dataset: Dataset) -> None:
    trained = train(dataset, resolve("als", overrides={"method": {"dim": width}}), TrainingOptions(quiet=True))
    assert trained.metrics["full_table_bytes"] == 80 * 128 * 4
    assert build(trained, ExportOptions(quiet=True)).card["full_table_bytes"] == 80 * 128 * 4
