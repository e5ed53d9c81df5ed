"""A wheel in an empty environment: it serves, and says what training needs."""

import json
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from legcf.serving.artifact import ServingModel
from tests.cli.read_only import can_be_read_only, read_only
from tests.cli.test_serve import serving
from tests.serving.conftest import model, toy  # noqa: F401 - fixtures

ROOT = Path(__file__).parents[1]
TRAINING = {"numba", "polars", "scipy", "torch"}


def _run(*command: object, code: int = 0) -> str:
    """What a command prints, on both streams."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def _installed(folder: Path) -> Path:
    """The `bin` of a new environment with the wheel and what it needs, as constraints.txt pins it."""
    source = folder / "source"
    source.mkdir()
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    _run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    _run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    _run(*pip, "--python", python, "install", "-c", ROOT / "constraints.txt", wheel)
    return python.parent


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment_serves(
    model: ServingModel,  # noqa: F811
    tmp_path: Path,
    writable: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # nothing of this tree is to be within reach
    programs, file = _installed(tmp_path), writable / "model.legcf"
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

    assert "serve" in _run(legcf, "--help")
    assert "--final" in _run(legcf, "train", "--help")
    for command in ("train data.csv --out run", "recommend run --user 1", "methods", "data info data.csv"):
        name = command.split()[0]
        assert _run(legcf, *command.split(), code=2) == (
            f"legcf: `legcf {name}` needs optional packages: run `pip install 'legcf[train]'` and try again.\n"
        )

    asked = "import legcf; scorer = legcf.Scorer.load({!r}); print(scorer.recommend_all(3)[0][:5].tolist())"
    assert json.loads(_run(python, "-c", asked.format(str(file)))) == best_of_five(file)
    said = _run(python, "-c", "import legcf; legcf.Recommender", code=1)
    assert "`legcf.Recommender` needs optional packages: run `pip install 'legcf[train]'`" in said


def best_of_five(file: Path) -> list[list[int]]:
    from legcf import Scorer

    found: list[list[int]] = np.asarray(Scorer.load(file).recommend_all(3)[0][:5]).tolist()
    return found
