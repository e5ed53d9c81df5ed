# SPDX-License-Identifier: Apache-2.0
"""The map from features in a model file, trusted with nothing."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.features.encoder import FeatureEncoder
from legcf.modelfile.container import read_container, write_container
from legcf.modelfile.served_model import ServedModel
from legcf.scoring.extend import NewItem, with_new_items
from legcf.scoring.scorer import Request, Scorer

from ..served import GROUPS

Store = dict[str, Any]


@pytest.fixture
def file(model: ServedModel, encoder: FeatureEncoder, tmp_path: Path) -> Path:
    sizes = replace(model, encoder=encoder).save(tmp_path / "model.legcf")
    assert sizes["features"] == 3 + (GROUPS + 1) * (encoder.mapping.matrix.shape[1] + 1)
    return tmp_path / "model.legcf"


def test_new_items_stand_with_their_kind(file: Path, encoder: FeatureEncoder) -> None:
    model = ServedModel.load(file)
    assert model.encoder is not None
    assert np.allclose(model.encoder.mapping.matrix, encoder.mapping.matrix, atol=0.01)
    longer = with_new_items(model, [NewItem.of(model, "i/new", {"kind": "group 1"}, "New")])
    near = Scorer(longer).similar_items("i/new", 10)
    assert {int(str(one.id)[2:]) % GROUPS for one in near} == {1}
    shown = Scorer(longer).recommend(Request(user="u4", k=3, allow=["i/new", "i/0", "i/2"]))
    assert shown[0].id == "i/new"


def _wrong_width(store: Store, config: Store) -> None:
    config["features"]["coder"][0]["width"] = 2


def _other_kind(store: Store, config: Store) -> None:
    config["features"]["coder"][0]["kind"] = "spell"


def _no_columns(store: Store, config: Store) -> None:
    config["features"]["coder"] = []


def _fewer_places(store: Store, config: Store) -> None:
    store["features.places"] = store["features.places"][:-1]


def _places_out_of_order(store: Store, config: Store) -> None:
    store["features.places"] = np.zeros_like(store["features.places"])


def _endless(store: Store, config: Store) -> None:
    config["features"]["coder"] = config["features"]["coder"] * 2000


@pytest.mark.parametrize(
    "harm", [_wrong_width, _other_kind, _no_columns, _fewer_places, _places_out_of_order, _endless]
)
def test_a_harmed_file_is_refused(file: Path, harm: Callable[[Store, Store], None]) -> None:
    store, metadata = read_container(file)
    config = json.loads(metadata["config"])
    harm(store, config)
    facts = {"config": json.dumps(config), "card": metadata["card"]}
    write_container(file, store, facts)
    with pytest.raises(UserError, match="damaged"):
        ServedModel.load(file)
