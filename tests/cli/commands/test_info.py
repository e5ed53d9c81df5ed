# SPDX-License-Identifier: Apache-2.0
"""`legcf info`, and the command as a program of its own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import legcf as package
from legcf.scoring.run_files import method_title
from tests.cli.typed import legcf, refused


def test_what_a_run_is(run: Path) -> None:
    answer = legcf("info", run)
    assert answer.code == 0
    for wanted in ("method", "training", "pretrain", "alternate", "recall@20"):
        assert wanted in answer.out


def test_json(run: Path) -> None:
    found = json.loads(legcf("info", run, "--json").out)
    assert found["finished"]
    assert found["config"]["method"]["c"] == 8
    assert sum(line["epoch"] > 0 for line in found["curve"]) == 4
    assert found["metrics"]["seed"] == 3


def test_a_model_that_was_kept_as_another_method_names_the_one_that_was_asked_for(run: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(run, tmp_path / "run"))
    assert "legcf on planted" in legcf("info", copied).out
    described = json.loads((copied / "model.json").read_text())
    described["config"]["method"] = {"name": "full", "dim": 8}
    (copied / "model.json").write_text(json.dumps(described))
    assert "legcf, kept as full, on planted" in legcf("info", copied).out
    assert method_title("legcf", "full") == "legcf, kept as full,"  # as `legcf train` ends with


def test_a_run_under_way(run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "config.json", tmp_path / "config.json")
    assert "Not finished" in legcf("info", tmp_path).out
    assert not json.loads(legcf("info", tmp_path, "--json").out)["finished"]


def test_what_is_no_run(tmp_path: Path) -> None:
    assert "not a run" in refused("info", tmp_path)
    for content in ("{}", "[]", '{"method": 1, "backbone": 2, "training": 3}'):
        (tmp_path / "config.json").write_text(content)
        assert "legcf train" in refused("info", tmp_path)


def test_the_program_itself(tmp_path: Path) -> None:
    """Installed entry point, exit code, one line on stderr."""
    program = Path(sys.executable).with_name("legcf")
    answer = subprocess.run([program, "info", tmp_path / "nowhere"], capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert answer.stderr.startswith("legcf: ")
    assert answer.stderr.count("\n") == 1
    assert package.__version__


def test_usage(tmp_path: Path) -> None:
    assert legcf("--help").code == 0
    assert "--resume" in legcf("train", "--help").out
    assert legcf("fly").code == 2
    assert legcf("train").code == 2


def test_a_picture_of_sizes_needs_sizes(run: Path, tmp_path: Path) -> None:
    assert "same size" in refused("info", run, "--plot", tmp_path / "sizes.png")
    assert not (tmp_path / "sizes.png").exists()


def test_a_picture_of_sizes(run: Path, tmp_path: Path) -> None:
    described = json.loads((run / "model.json").read_text())
    groups = [{"mean": 1.0}, {"mean": 3.0}]
    described["metrics"]["sizes"] = {"mean": 2.0, "users": groups, "items": groups}
    (tmp_path / "model.json").write_text(json.dumps(described))
    assert legcf("info", tmp_path, "--plot", tmp_path / "sizes.svg").code == 0
    assert "<svg" in (tmp_path / "sizes.svg").read_text()
