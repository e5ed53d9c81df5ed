# SPDX-License-Identifier: Apache-2.0
"""Commands that only answer: started as programs, they import nothing that trains, and are quick and small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.typed import legcf, refused

# What a command must not import, and limits that also hold on a busy machine.
_HEAVY = ("torch", "numba", "polars", "scipy", "pandas", "matplotlib")
_MOST_SECONDS, _MOST_MB = 10.0, 200.0
_PROGRAM = """
import json, sys, time
started = time.perf_counter()
sys.argv = ["legcf", *sys.argv[1:]]
from legcf.cli.app import main
try:
    main()
except SystemExit as leaving:
    assert not leaving.code, leaving.code
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
peak = int(status["VmHWM"].split()[0]) / 1024  # of this program alone, not of who started it
seconds = time.perf_counter() - started
print(json.dumps({"modules": list(sys.modules), "seconds": seconds, "peak": peak}), file=sys.stderr)
"""


def started(*arguments: object) -> str:
    """Run a command in a process of its own; return what it printed."""
    program = [sys.executable, "-c", _PROGRAM, *map(str, arguments)]
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=120)
    found = json.loads(done.stderr.strip().splitlines()[-1])
    assert [name for name in _HEAVY if name in found["modules"]] == []
    assert found["seconds"] < _MOST_SECONDS
    assert found["peak"] < _MOST_MB
    return done.stdout


@pytest.fixture(scope="module")
def file(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "model.legcf"
    assert legcf("export", run, path).code == 0
    return path


def test_a_run_answers(run: Path) -> None:
    assert "For user 7" in started("recommend", run, "--user", 7)
    assert "recall@20" in started("info", run)


def test_a_model_file_answers(file: Path) -> None:
    rows = json.loads(started("recommend", file, "--user", 7, "-k", 5, "--json"))["recommendations"]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
    shown = started("info", file)
    assert "model.legcf" in shown
    assert "times smaller than the full table" in shown
    assert json.loads(started("info", file, "--json"))["items"] == 40


def test_help_and_version() -> None:
    assert "--part" in started("evaluate", "--help")
    assert started("--version").startswith("legcf ")


def test_a_model_file_is_measured_on_data(file: Path, folder: Path, tmp_path: Path) -> None:
    assert "--data" in refused("evaluate", file)
    (tmp_path / "new.csv").write_text("user,item\n7,1\n7,2\n8,5\n8,9\n3,30\n3,31\n")
    found = json.loads(legcf("evaluate", file, "--data", tmp_path / "new.csv", "--json").out)["metrics"]
    assert found["pairs"] + found["trained_pairs"] == 6
    assert 0 <= found["ndcg@20"] <= 1
    assert "drawn from a run" in refused("info", file, "--plot", tmp_path / "sizes.png")


def test_a_file_without_users_is_measured_by_the_parts_of_the_data(folder: Path, tmp_path: Path) -> None:
    run, file = tmp_path / "run", tmp_path / "model.legcf"
    words = ("--preset", "fast", "--set", "method.c=8", "--quiet")
    assert legcf("train", folder, "--out", run, *words).code == 0
    assert legcf("export", run, file, "--users", "none").code == 0
    found = json.loads(legcf("evaluate", file, "--data", folder, "--json").out)["metrics"]
    tested = json.loads((run / "metrics.json").read_text())["test"]
    assert found["ndcg@20"] == pytest.approx(tested["ndcg@20"], abs=1e-6)
    assert "stores no users" in refused("recommend", file, "--user", 7)


def test_many_users_of_a_file_are_written(file: Path, run: Path, tmp_path: Path) -> None:
    import polars as pl

    for source, name in ((file, "file"), (run, "run")):
        assert legcf("recommend", source, "-k", 3, "--output", tmp_path / f"{name}.parquet").code == 0
    of_file, of_run = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("file", "run"))
    assert of_file.schema == of_run.schema
    assert of_file["user"].to_list() == of_run["user"].to_list()


def test_completion_and_the_list_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "recommend" in started("--help")
    variables = {"_LEGCF_COMPLETE": "complete_bash", "COMP_WORDS": "legcf recommend --u", "COMP_CWORD": "2"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    program = [sys.executable, "-X", "importtime", "-c", "import sys; sys.argv = ['legcf']; import legcf.__main__"]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=120)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & set(_HEAVY)


def test_a_model_file_is_measured_without_torch(file: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("user,item\n7,1\n7,2\n8,5\n8,9\n3,30\n3,31\n")
    program = [sys.executable, "-X", "importtime", "-m", "legcf", "evaluate", str(file), "--data", tmp_path / "new.csv"]
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=120)
    assert "ndcg" in done.stdout
    assert "torch" not in {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
