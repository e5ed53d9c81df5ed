# SPDX-License-Identifier: Apache-2.0
"""`legcf methods`: what can be trained."""

import json

from legcf.training.registry import BACKBONES, METHODS
from tests.cli.typed import legcf, refused


def test_everything_in_the_registry_is_listed() -> None:
    answer = legcf("methods")
    assert answer.code == 0
    for name in (*METHODS, *BACKBONES):
        assert name in answer.out


def test_json_has_citation_stages_presets_and_defaults() -> None:
    found = json.loads(legcf("methods", "--json").out)
    assert found["methods"].keys() == METHODS.keys()
    assert found["backbones"].keys() == BACKBONES.keys()
    for name, method in found["methods"].items():
        assert method["citation"] == METHODS[name].layer.citation
        assert all(preset["stages"] for preset in method["presets"].values())
        assert all(option["description"] for option in method["options"].values())
    assert found["methods"]["legcf"]["presets"]["graph"]["stages"] == ["pretrain", "alternate"]
    assert found["methods"]["legcf"]["options"]["t"]["default"] == 2
    assert found["backbones"]["lightgcn"]["options"]["layers"]["default"] == 3


def test_one_of_them() -> None:
    answer = legcf("methods", "qr")
    assert "Shi et al." in answer.out
    assert "partition" in answer.out
    assert "training.batch_size" in answer.out
    assert "layers" in legcf("methods", "lightgcn").out
    only = json.loads(legcf("methods", "qr", "--json").out)
    assert only["methods"].keys() == {"qr"}
    assert not only["backbones"]


def test_no_such_method() -> None:
    assert "choose one of" in refused("methods", "tables")
