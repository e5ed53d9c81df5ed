# SPDX-License-Identifier: Apache-2.0
"""The distributions are complete; in an empty environment a wheel serves, and with `[demo]` it trains as well."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from legcf.modelfile.served_model import ServedModel
from tests.cli.commands.test_serve import serving
from tests.cli.read_only import can_be_read_only, read_only
from tests.served import model, toy  # noqa: F401 - fixtures

ROOT = Path(__file__).parents[1]
TRAINING = {"numba", "polars", "scipy", "torch"}
PYTHONS = os.environ.get("PYTHONS", "").split() or [sys.executable]
_LEFT = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__")


@dataclass(frozen=True)
class Built:
    """What `python -m build` leaves: the wheel is made from the source distribution, so that must be enough."""

    source: Path
    wheel: Path


def _run(*command: object, code: int = 0, cwd: Path | None = None) -> str:
    """What a command prints, on both streams."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=550, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def _made(folder: str, names: list[str]) -> set[str]:
    """What tools leave in a checkout."""
    at_the_top = {"build", "dist", "runs", "site"} if Path(folder) == ROOT else set()
    return _LEFT(folder, names) | at_the_top & set(names)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(ROOT, folder / "tree", ignore=_made)
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, folder / "tree")
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Built(source, wheel)


@pytest.fixture
def nothing_of_this_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)


def _installed(wheel: str, folder: Path, python: str = sys.executable) -> Path:
    """The `bin` of a new environment with a wheel and what it needs, as constraints.txt pins it."""
    _run(python, "-m", "venv", "--without-pip", folder / "venv")
    programs = folder / "venv" / "bin"
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", programs / "python")
    _run(*pip, "install", "-c", ROOT / "constraints.txt", wheel)
    return programs


@pytest.mark.slow
def test_the_source_distribution_has_every_file(built: Built) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not listed:
        pytest.skip("this is no checkout")
    with tarfile.open(built.source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    here = {name for name in listed if not name.startswith(".") and (ROOT / name).exists()}
    assert here - packed == set()


@pytest.mark.slow
def test_the_wheel_of_the_studies_has_all_that_it_reads(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "studies", tmp_path / "tree", ignore=_LEFT)
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, tmp_path / "tree")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    source = ROOT / "studies" / "src"
    here = {path.relative_to(source).as_posix() for path in source.rglob("*.*") if "egg-info" not in str(path.parent)}
    assert {name for name in here if name.endswith((".py", ".json", ".typed"))} - packed == set()
    assert any(name.endswith("entry_points.txt") for name in packed)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_of_this_tree")
def test_a_wheel_in_an_empty_environment_serves(
    built: Built,
    model: ServedModel,  # noqa: F811
    tmp_path: Path,
    writable: Path,
) -> None:
    programs, file = _installed(str(built.wheel), tmp_path), writable / "model.legcf"
    legcf, python = programs / "legcf", programs / "python"
    model.save(file)
    packages = {path.name for path in programs.parent.glob("lib/python*/site-packages/*")}
    assert {"legcf", "numpy", "uvicorn"} <= packages
    assert not TRAINING & packages

    inside = read_only() if can_be_read_only() else ()
    with serving(file, inside=inside, program=(str(legcf),)) as (base, _):
        answer = json.loads(urllib.request.urlopen(f"{base}/recommend/u1?k=3").read())
        assert [item["id"] for item in answer["items"]]
        assert b"<title>" in urllib.request.urlopen(f"{base}/").read()  # the page is in the wheel

    assert "For user u1" in _run(legcf, "recommend", file, "--user", "u1", "-k", 3)
    assert "times smaller" in _run(legcf, "info", file)
    assert "serve" in _run(legcf, "--help")
    assert "--final" in _run(legcf, "train", "--help")
    for command in ("train data.csv --out run", "recommend run --user 1", "methods", "data info data.csv"):
        name = command.split()[0]
        assert _run(legcf, *command.split(), code=2) == (
            f"legcf: `legcf {name}` needs optional packages: run `pip install 'legcf[train]'` and try again.\n"
        )

    assert "run `pip install legcf-studies`" in _run(legcf, "reproduce", "table2", "--data", "gowalla", code=2)

    asked = "import legcf; scorer = legcf.Scorer.load({!r}); print(scorer.recommend_all(3)[0][:5].tolist())"
    assert json.loads(_run(python, "-c", asked.format(str(file)))) == best_of_five(file)
    said = _run(python, "-c", "import legcf; legcf.Recommender", code=1)
    assert "`legcf.Recommender` needs optional packages: run `pip install 'legcf[train]'`" in said


@pytest.mark.install
@pytest.mark.usefixtures("nothing_of_this_tree")
@pytest.mark.parametrize("python", PYTHONS)
def test_a_wheel_in_an_empty_environment_trains_and_serves(built: Built, python: str, tmp_path: Path) -> None:
    programs = _installed(f"{built.wheel}[demo]", tmp_path, python)
    home = _run(programs / "python", "-c", "import legcf, torch; print(legcf.__file__, torch.__file__)", cwd=tmp_path)
    assert home.count(str(programs.parent / "lib")) == 2

    run, file = tmp_path / "run", tmp_path / "model.legcf"
    options = ("--min-rating", "4", "--k-core", "10", "--bytes", "100kB", "--final", "--quiet")
    _run(programs / "legcf", "train", "movielens-small", *options, "--out", run)
    assert json.loads((run / "metrics.json").read_text())["test"]["ndcg@20"] > 0.2
    _run(programs / "legcf", "export", run, file, "--users", "history", "--quiet")
    with serving(file, program=(str(programs / "legcf"),)) as (base, _):
        answer = json.loads(urllib.request.urlopen(f"{base}/recommend/15?k=3").read())
        assert len(answer["items"]) == 3
        assert all(item["title"] for item in answer["items"])


@pytest.mark.install
@pytest.mark.usefixtures("nothing_of_this_tree")
def test_a_wheel_without_torch_fits(built: Built, tmp_path: Path) -> None:
    programs = _installed(f"{built.wheel}[fit]", tmp_path)
    legcf, data, file = programs / "legcf", tmp_path / "shop.csv", tmp_path / "model.legcf"
    packages = {path.name for path in programs.parent.glob("lib/python*/site-packages/*")}
    assert TRAINING & packages == TRAINING - {"torch"}
    _run(legcf, "data", "generate", data, "--users", 400, "--items", 300, "--pairs", 9000, "--quiet")
    for options in (("--method", "popularity"), ("--method", "ease"), ("--preset", "fast", "--bytes", "100kB")):
        run = tmp_path / options[1]
        _run(legcf, "train", data, *options, "--out", run, "--quiet")
        assert "ndcg@20" in _run(legcf, "evaluate", run)
    _run(legcf, "export", tmp_path / "fast", file, "--users", "history", "--quiet")
    assert "times smaller" in _run(legcf, "info", file)
    said = _run(legcf, "train", data, "--out", tmp_path / "default", code=2)
    assert said == (
        "legcf: Preset default of method legcf needs optional packages:"
        " run `pip install 'legcf[train]'` and try again.\n"
    )


def best_of_five(file: Path) -> list[list[int]]:
    from legcf import Scorer

    found: list[list[int]] = np.asarray(Scorer.load(file).recommend_all(3)[0][:5]).tolist()
    return found
