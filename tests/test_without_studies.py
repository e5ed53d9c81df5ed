# SPDX-License-Identifier: Apache-2.0
"""legcf where `legcf-studies` is not installed: what is in it is refused with the command that installs it."""

from pathlib import Path

import pytest

from legcf.cli.app import COMMANDS
from legcf.core.plugins import Registry
from legcf.training.registry import BACKBONES, METHODS
from tests.cli.typed import legcf, refused


@pytest.fixture(autouse=True)
def _without_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    registry: Registry[object]
    for registry in (METHODS, BACKBONES, COMMANDS):
        monkeypatch.setattr(registry, "_waiting", {})
        for name in registry.of_studies:
            monkeypatch.delitem(registry._parts, name, raising=False)


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("train data.csv --method pep --out RUN", "method `pep`"),
        ("search data.csv --method graphhash --out RUN", "method `graphhash`"),
        ("methods qr", "method `qr`"),
        ("train data.csv --preset graph --backbone ngcf --out RUN", "backbone `ngcf`"),
        ("reproduce table2 --data gowalla", "command `reproduce`"),
        ("report RUN", "command `report`"),
    ],
)
def test_one_sentence_says_what_to_install(command: str, what: str, tmp_path: Path) -> None:
    assert refused(*command.replace("RUN", str(tmp_path)).split()) == (
        f"legcf: The {what} is in another package: run `pip install legcf-studies` (in a checkout"
        " `pip install ./studies`) and try again."
    )


def test_what_is_listed_is_there() -> None:
    assert "reproduce" not in legcf("--help").out
    listed = legcf("methods").out
    assert "ease" in listed
    assert "graphhash" not in listed
