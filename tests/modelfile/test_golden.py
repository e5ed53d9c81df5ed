# SPDX-License-Identifier: Apache-2.0
"""Check that files, run folders and configurations of an earlier commit (35ee7e4) load and answer as they did then.

Planted communities, 48 users and 64 items; `answers.json` holds what that commit answered.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from legcf import Recommender, Request, Scorer
from legcf.modelfile.container import read_container
from legcf.modelfile.served_model import ServedModel
from legcf.scoring.extend import NewItem
from legcf.training.registry import config_from_json

GOLDEN = Path(__file__).parent / "golden"
ANSWERS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "answers.json").read_text(encoding="utf-8"))
RELATIVE, ABSOLUTE = 1e-4, 1e-6  # of scores: sums may be rounded otherwise on another machine


def same(now: list[Any], before: list[Any]) -> None:
    """Compare rows that end in a score."""
    assert [list(row[:-1]) for row in now] == [list(row[:-1]) for row in before]
    np.testing.assert_allclose([row[-1] for row in now], [row[-1] for row in before], RELATIVE, ABSOLUTE)


@pytest.mark.parametrize("name", ANSWERS["files"])
def test_a_file_answers_as_it_did(name: str) -> None:
    before, scorer = ANSWERS["files"][name], Scorer.load(GOLDEN / name)
    model = scorer.model
    assert model.users is not None
    assert (len(model.items), len(model.users)) == (before["items"], before["users"])
    assert (None if model.titles is None else model.titles[:2]) == before["titles"]
    for ask in before["asks"]:
        same([(found.id, found.score) for found in scorer.recommend(Request(**ask["request"]))], ask["answer"])
    similar = scorer.similar_items(before["similar"]["item"], 4)
    same([(found.id, found.score) for found in similar], before["similar"]["answer"])
    if "new_item" in before:
        vector = NewItem.of(model, "new", {"kind": "group 2", "price": 3.0}).vector
        np.testing.assert_allclose(vector, before["new_item"], RELATIVE, ABSOLUTE)


@pytest.mark.parametrize("name", ANSWERS["files"])
def test_a_file_that_is_written_again_has_the_same_parts(name: str, tmp_path: Path) -> None:
    ServedModel.load(GOLDEN / name).save(tmp_path / name)
    before, now = read_container(GOLDEN / name)[0], read_container(tmp_path / name)[0]
    assert ("atlas" in before) == name.startswith("codes")
    before.pop("atlas", None)  # the layout of the map, which is no longer kept
    assert sorted(now) == sorted(before)
    for part, array in before.items():
        np.testing.assert_array_equal(now[part], array, err_msg=part)


@pytest.mark.parametrize("name", ANSWERS["runs"])
def test_a_run_folder_answers_as_it_did(name: str) -> None:
    before, model = ANSWERS["runs"][name], Recommender.load(GOLDEN / name)
    now = model.recommend(before["users"], k=4).select("user", "item", "score").rows()
    same(now, before["answer"])
    same(model.similar_items("i/03", k=4).select("item", "score").rows(), before["similar"])


def test_a_run_folder_with_features_can_still_be_updated() -> None:
    model = Recommender.load(GOLDEN / "run-fast")
    before = len(model.items)
    new = pl.DataFrame({"item": ["new"], "title": ["New"], "kind": ["group 2"], "price": [3.0]})
    assert len(model.update(item_features=new, evaluate=False).items) == before + 1


@pytest.mark.parametrize(
    ("name", "preset"),
    [("config-default.json", "default"), ("config-paper.json", "paper"), ("run-graph/config.json", "graph")],
)
def test_a_configuration_is_understood(name: str, preset: str) -> None:
    before = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    config = config_from_json({key: value for key, value in before.items() if key != "content_hash"})
    assert config.preset == preset
    assert config.seed == before["seed"]
    for key in ("learning_rate", "epochs", "loss", "batch_size"):
        assert getattr(config.training, key) == before["training"][key]
    for key in ("list_ridge", "list_bits", "lists", "bits"):
        assert getattr(config.ranking, key) == before["ranking"][key]
    assert config_from_json(config.to_json()) == config
