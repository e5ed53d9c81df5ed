"""A tiny study on planted communities, as declared and as run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from legcf.experiments import studies
from legcf.experiments.studies import STUDIES, Study
from tests.experiments.tiny import tiny_cells
from tests.helpers import planted, write_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(planted(40, 40), tmp_path_factory.mktemp("data") / "planted")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The ablation is a study of two cells that take no time."""
    monkeypatch.setitem(STUDIES, "ablation", Study("Tiny", "table", tiny_cells))
    yield
    assert studies.STUDIES is STUDIES
