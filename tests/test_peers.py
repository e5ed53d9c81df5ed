# SPDX-License-Identifier: Apache-2.0
"""The comparison with other projects: a row runs in a process of its own, is judged, and is not run twice."""

import contextlib
import io
import json
import runpy
import sys
from pathlib import Path

import pytest

from legcf.recommender import Recommender
from tests.helpers import planted, write_folder

ROOT = Path(__file__).parents[1]


def peers(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> str:
    """What `python benchmarks/peers WORDS` prints, without a process of its own; the rows have theirs."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["peers", *map(str, words)])
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(ROOT / "benchmarks" / "peers"), run_name="__main__")
    return printed.getvalue()


def test_a_row_is_judged_as_the_method_is_and_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_folder(planted(40, 40), tmp_path / "planted")
    words = (data, "--work", tmp_path / "work", "--page", tmp_path / "peers.md", "--only", "legcf-popularity")
    assert "planted: legcf popularity: recall@20" in peers(monkeypatch, *words)
    record = json.loads((tmp_path / "work" / "planted" / "legcf-popularity.json").read_text())
    wanted = Recommender("popularity").fit(data, protocol="legcf").metrics["test"]
    assert abs(record["ndcg@20"] - wanted["ndcg@20"]) < 1e-6
    assert record["bytes"] > 0
    assert record["fit_seconds"] > 0
    page = (tmp_path / "peers.md").read_text()
    assert "| **legcf popularity** |" in page
    tables = (tmp_path / "reproduction" / "peers-tables.md").read_text()
    assert "fit, CPU" not in page
    assert "| fit, CPU |" in tables
    assert "| **legcf popularity** |" in tables
    assert (tmp_path / "peers" / "planted-bytes.svg").exists()
    assert "popularity: recall" not in peers(monkeypatch, *words)  # it is there already
