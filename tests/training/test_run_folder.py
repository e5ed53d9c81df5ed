# SPDX-License-Identifier: Apache-2.0
"""A trained model on disk: as it was, also from a folder that an earlier version wrote; damage is a sentence."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf.core.config import migrated
from legcf.core.errors import UserError
from legcf.core.files import read_json, write_json
from legcf.data.options import DataOptions
from legcf.data.source import load_data
from legcf.recommender import Recommender
from legcf.training import checkpoint
from legcf.training.loop import TrainingOptions
from legcf.training.registry import config_from_json, resolve
from legcf.training.run import train
from legcf.training.run_folder import load_model
from tests.cli.typed import legcf

KEPT = Path(__file__).parents[1] / "runs_kept"
"""A run folder of format 1 with its data (ids 0 … 37) and the lists that it gave, seen items included."""


def test_a_folder_of_format_1_still_recommends_the_same() -> None:
    model = Recommender.load(KEPT / "format-1")
    before = pl.read_csv(KEPT / "format-1-lists.csv")
    now = model.recommend(k=5, exclude_seen=False)
    assert now["item"].to_list() == before["item"].to_list()
    assert np.allclose(now["score"], before["score"], rtol=1e-4)


def test_a_folder_of_format_1_is_written_in_the_present_format(tmp_path: Path) -> None:
    model = Recommender.load(KEPT / "format-1")
    model.save(tmp_path)
    assert read_json(tmp_path / "model.json")["format_version"] == 2
    again = Recommender.load(tmp_path)
    assert again.config == model.config
    assert again.recommend(k=5).equals(model.recommend(k=5))


@pytest.mark.parametrize("command", ["info", "recommend --user 3"])
def test_commands_take_a_folder_of_format_1(command: str) -> None:
    first, *more = command.split()
    answer = legcf(first, KEPT / "format-1", *more)
    assert answer.code == 0, answer.err


def test_what_was_called_best_is_the_best_of_all() -> None:
    """In run folders, in settings that are typed, and in the files of --config; any other word is refused."""
    before = read_json(KEPT / "format-1" / "config.json")
    assert before["training"]["keep"] == "best"
    assert migrated(before)["training"]["keep"] == "best-of-all"
    assert config_from_json(before).training.keep == "best-of-all"
    assert resolve(overrides={"training": {"keep": "best"}}).training.keep == "best-of-all"
    with pytest.raises(UserError, match=r"training\.keep = 'first' is not possible"):
        resolve(overrides={"training": {"keep": "first"}})


def test_settings_of_format_1_make_the_same_model() -> None:
    """Training on the same data with the settings as they were written then."""
    config = config_from_json(read_json(KEPT / "format-1" / "config.json"))
    dataset = load_data(str(KEPT / "data"), DataOptions(protocol="legcf", cold="keep"))
    before = read_json(KEPT / "format-1" / "metrics.json")
    assert dataset.content_hash == before["content_hash"]
    again = train(dataset, config, TrainingOptions(quiet=True)).metrics
    assert again["num_params"] == before["num_params"]
    assert again["storage_bytes"] == before["storage_bytes"]
    assert again["test"]["recall@20"] == pytest.approx(before["test"]["recall@20"], abs=0.02)


def test_migration_changes_nothing_twice() -> None:
    old = read_json(KEPT / "format-1" / "config.json")
    assert migrated(migrated(old)) == migrated(old)
    assert migrated(old)["ranking"] == {"norm_power": 1.0}


@pytest.mark.parametrize("key", ["neighbours", "fit_neighbours"])
def test_a_weight_of_neighbours_is_refused_and_none_is_forgotten(key: str, tmp_path: Path) -> None:
    """As format 1 has it among the settings of training, as later runs have it, and as it is typed."""
    old = read_json(KEPT / "format-1" / "config.json")
    old["training"][key] = 0.5 if key == "neighbours" else True
    switched_off = old["training"] | {"neighbours": 0.0, "fit_neighbours": False}
    now = migrated({**old, "training": switched_off}) | {"ranking": {"lists": 2.0, key: 0.5}}
    for config in (old, now):
        with pytest.raises(UserError, match=rf"\.{key} = .* item lists replace it"):
            config_from_json(config)
    now["ranking"][key] = False
    assert config_from_json(now).ranking.lists == 2.0
    with pytest.raises(UserError, match="item lists replace it"):
        resolve(overrides={"ranking": {key: 1}})
    shutil.copytree(KEPT / "format-1", tmp_path / "run")
    description = read_json(tmp_path / "run" / "model.json")
    write_json(tmp_path / "run" / "model.json", {**description, "config": old})
    with pytest.raises(UserError, match="item lists replace it"):
        load_model(tmp_path / "run")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b"not tensors"), "damaged"),
        (lambda folder: write_json(folder / "model.json", {"format": "other"}), "not written by legcf"),
        (lambda folder: (folder / "model.json").unlink(), "no finished model"),
        (
            lambda folder: write_json(folder / "model.json", {**read_json(folder / "model.json"), "format_version": 9}),
            "format version 9",
        ),
        (
            lambda folder: write_json(folder / "model.json", {**read_json(folder / "model.json"), "sha256": "0"}),
            "damaged",
        ),
    ],
)
def test_damage_is_a_sentence(tmp_path: Path, spoil, complaint: str) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "run"
    shutil.copytree(KEPT / "format-1", folder)
    spoil(folder)
    with pytest.raises(UserError, match=complaint):
        load_model(folder)


def edited(folder: Path, **values: object) -> None:
    write_json(folder / "model.json", {**read_json(folder / "model.json"), **values})


def with_metrics(folder: Path, **values: object) -> None:
    edited(folder, metrics={**read_json(folder / "model.json")["metrics"], **values})


def with_far_items(folder: Path) -> None:
    """Right in every checksum, and beyond the end of what compiled loops read."""
    groups, facts = checkpoint.load(folder / "model.safetensors")
    groups["train"]["items"] = groups["train"]["items"] + 10**6
    checkpoint.save(folder / "model.safetensors", groups, facts)
    edited(folder, sha256=hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "model.json").write_text("[" * 100_000),
        lambda folder: (folder / "model.json").write_text("9" * 5000),
        lambda folder: edited(folder, metrics=[]),
        lambda folder: edited(folder, curve=None),
        lambda folder: edited(folder, config=[1]),
        lambda folder: edited(folder, config={**read_json(folder / "model.json")["config"], "ranking": 3}),
        lambda folder: edited(folder, config={**read_json(folder / "model.json")["config"], "seed": "x"}),
        lambda folder: edited(folder, config={**read_json(folder / "model.json")["config"], "training": [2]}),
        lambda folder: edited(folder, curve=[True]),
        lambda folder: with_metrics(folder, test="x"),
        lambda folder: with_metrics(folder, validation={"ndcg@20": "x"}),
        lambda folder: with_metrics(folder, storage_bytes=[]),
        lambda folder: with_metrics(folder, seconds=3),
        with_far_items,
    ],
    ids=[
        *("deep", "digits", "metrics", "curve", "configuration", "ranking", "seed", "training"),
        *("line", "test", "score", "bytes", "seconds", "items"),
    ],
)
def test_edits_are_a_sentence(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    folder = tmp_path / "run"
    shutil.copytree(KEPT / "format-1", folder)
    spoil(folder)
    with pytest.raises(UserError) as raised:
        load_model(folder)
    assert "\n" not in str(raised.value)


def test_a_damaged_report_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"epoch": 1}\n{"epoch": \n')
    with pytest.raises(UserError, match=r"metrics\.jsonl is damaged"):
        checkpoint.RunLog(tmp_path, None).restore(2)


def test_no_folder_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run"):
        load_model(tmp_path / "nowhere")
