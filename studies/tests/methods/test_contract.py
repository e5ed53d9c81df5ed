# SPDX-License-Identifier: Apache-2.0
"""The contract of every method that the studies bring, under the names that legcf and pyproject.toml know."""

import tomllib
from pathlib import Path

import pytest

from legcf.data.interactions import Dataset
from legcf.testing.methods import MethodContract
from legcf.training.registry import BACKBONES, METHODS_OF_STUDIES
from tests.helpers import planted

ENTRY_POINTS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Planted communities, with two users and two items that have no pairs."""
    return planted(52, 48, cold=2)


@pytest.mark.parametrize("method", METHODS_OF_STUDIES)
class TestMethods(MethodContract):
    pass


def test_legcf_names_what_is_here() -> None:
    assert sorted(METHODS_OF_STUDIES) == sorted(ENTRY_POINTS["legcf.methods"])
    assert sorted(BACKBONES.of_studies) == sorted(ENTRY_POINTS["legcf.backbones"])
