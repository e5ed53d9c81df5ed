# SPDX-License-Identifier: Apache-2.0
"""What CONTRIBUTING.md promises: each part is one file and one line, and then the commands know it.

Every test writes that file as a stranger would, adds that line, and types the commands. The line may also be an entry
point of another package: `examples/legcf-buckets` is installed and used as anybody would.
"""

import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import ModuleType

import pytest

from legcf.assignment.solvers import SOLVERS
from legcf.cli import app
from legcf.cli import commands as legcf_cli
from legcf.data.engines import ENGINES
from legcf.data.reading.formats import FORMATS
from legcf.evaluation.metrics import METRICS
from legcf.training.learning.losses import LOSSES, Loss
from legcf.training.registry import BACKBONES, METHODS
from legcf_studies.paper.cells import StudyContext
from legcf_studies.paper.studies import STUDIES
from tests.cli.commands.test_serve import serving
from tests.cli.typed import in_turn, legcf, refused
from tests.helpers import planted, write_folder

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "legcf-buckets"
BACKBONE = """
from typing import Literal

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from legcf.backbones.base import Backbone
from legcf.core.config import BackboneConfig
from legcf.graph.adjacency import normalised
from legcf.graph.operator import FloatArray, Operator


class LastHopConfig(BackboneConfig):
    name: Literal["last-hop"] = "last-hop"
    hops: int = Field(2, ge=0, description="how far rows travel")


class LastHop(Backbone[LastHopConfig]):
    Config = LastHopConfig
    summary = "what the last hop brings, and nothing else"
    citation = "nobody"

    def operator(self, graph: sp.csr_matrix, num_users: int, num_items: int) -> Operator:
        return Operator(normalised(graph), symmetric=True)

    def coefficients(self) -> FloatArray:
        return np.eye(self.config.hops + 1, dtype=np.float32)[-1:]
"""
SOLVER = '''
import numpy as np

from legcf.assignment.assignment import Assignment, FloatArray


def solve(vectors: FloatArray, dictionary: FloatArray, t: int, memory_cap_mb: float) -> Assignment:
    """All of an entity on the one meta-embedding that is most like it."""
    scores = vectors @ dictionary.T
    indices = np.argsort(-scores, axis=1)[:, :t].astype(np.int32)
    weights = np.zeros(indices.shape, dtype=np.float32)
    weights[:, 0] = 1
    return Assignment(indices, weights, len(dictionary))
'''
LOSS = '''
import torch

from legcf.training.learning.losses import with_gradient
from legcf.training.sampler import TrainingBatch


def hinge(vectors: torch.Tensor, batch: TrainingBatch, negative_weight: float) -> torch.Tensor:
    """max(0, 1 − y_positive + y_negative), and torch finds the gradient."""
    users, positives, negatives = (torch.from_numpy(part) for part in (batch.users, batch.positives, batch.negatives))
    right = (vectors[users] * vectors[positives]).sum(dim=1, keepdim=True)
    wrong = torch.einsum("pd,pnd->pn", vectors[users], vectors[negatives])
    return torch.relu(1 - right + negative_weight * wrong).mean()


@with_gradient
def by_hand(vectors: torch.Tensor, batch: TrainingBatch, negative_weight: float) -> tuple[float, torch.Tensor]:
    """The same, with the gradient that its author wrote down."""
    leaf = vectors.clone().requires_grad_()
    with torch.enable_grad():
        value = hinge(leaf, batch, negative_weight)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.item(), gradient
'''
METRIC = '''
import numpy as np

from legcf.data.reading.formats import FORMATS
from legcf.evaluation.metrics import Counts, Hits, PerUser


def first_right(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """1 where the very first place is right."""
    return np.asarray(hits[:, 0], dtype=np.float64)
'''
COMMAND = '''
from pathlib import Path
from typing import Annotated

import typer

from legcf.cli.output import AsJson, print_json, print_pairs
from legcf.core.errors import UserError


def popular(run: Annotated[Path, typer.Argument(help="A run folder.")], k: int = 3, as_json: AsJson = False) -> None:
    """Print the items that most users of RUN have."""
    from legcf.recommender import Recommender

    if k < 1:
        raise UserError(f"--k {k} is not possible; ask for at least 1 item.")
    model = Recommender.load(run)
    counts = model.ranking.popularity
    found = {str(model.items.external([item])[0]): int(counts[item]) for item in (-counts).argsort(kind="stable")[:k]}
    print_json(found) if as_json else print_pairs("Popular", found)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(planted(40, 40), tmp_path_factory.mktemp("extending") / "planted")


def module(text: str, folder: Path) -> ModuleType:
    """The one file."""
    path = folder / "added.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("added", path)
    assert spec is not None
    assert spec.loader is not None
    added = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(added)
    return added


def trained(folder: Path, out: Path, *options: object) -> Path:
    """Train, rank and load again by commands alone."""
    answer = legcf(
        "train", folder, "--out", out, "--epochs", 2, "--set", "training.batch_size=200", "--quiet", *options
    )
    assert answer.code == 0, answer.err
    shown = legcf("recommend", out, "--user", 0, "-k", 3, "--json")
    assert shown.code == 0, shown.err
    return out


def test_contributing_names_what_there_is() -> None:
    """Every file, every registry and every group of entry points."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## How to add")[2].partition("\n## ")[0]
    files = set(re.findall(r"`([a-z_/]+/[a-z_]+\.py)`", text))
    assert {name for name in files if not ((ROOT / "src/legcf" / name).exists() or (ROOT / name).exists())} == set()
    assert len(files) > 15
    code = "\n".join(path.read_text() for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py"))
    names = set(re.findall(r"`(_?[A-Z_]{4,}|_[a-z_]+|[A-Z][a-z]+[A-Z]\w+|[a-z]+_[a-z_]+)`", text))
    assert {name for name in names if not re.search(rf"(def|class) {name}\b|\b{name}\b( =|:)", code)} == set()
    registries = (METHODS, BACKBONES, LOSSES, SOLVERS, METRICS, FORMATS, app.COMMANDS, ENGINES)
    assert {one.group for one in registries} == set(re.findall(r"`(legcf\.[a-z]+s)`: ", text))
    for module, contract in re.findall(r"`([a-z]+)\.([A-Z]\w+Contract)`", text):
        assert hasattr(importlib.import_module(f"legcf.testing.{module}"), contract)


def test_a_method(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (EXAMPLE / "legcf_buckets.py").read_text()
    monkeypatch.setitem(METHODS, "buckets", module(text, tmp_path).METHOD)
    run = trained(folder, tmp_path / "run", "--method", "buckets", "--dim", 8, "--set", "method.budget=160")
    assert json.loads((run / "config.json").read_text())["method"]["buckets"] == 20
    metrics = json.loads((run / "metrics.json").read_text())
    assert (metrics["num_params"], metrics["storage_bytes"]) == (160, 640)
    described = json.loads(legcf("methods", "buckets", "--json").out)["methods"]["buckets"]
    assert described["presets"]["default"]["stages"] == ["train"]
    assert "buckets" in {cell.name for cell in STUDIES["table2"].cells(StudyContext("planted", 40, 40))}
    assert "method.bukets" in refused(
        "train", folder, "--out", tmp_path / "no", "--method", "buckets", "--set", "method.bukets=3"
    )


@pytest.mark.slow
def test_a_method_of_another_package(folder: Path, tmp_path: Path) -> None:
    """Installed beside legcf it is trained, exported and served by commands, and inherits the contract."""
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(EXAMPLE, source)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index")
    subprocess.run([*pip, "--target", site, source], check=True, capture_output=True)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}

    def run(command: list[str]) -> str:
        done = subprocess.run(command, env=env, cwd=source, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    train = ("train", folder, "--out", tmp_path / "run", "--method", "buckets", "--dim", 8, "--quiet")
    export = ("export", tmp_path / "run", tmp_path / "model.legcf")
    assert "shared by number" in run(in_turn(("methods", "buckets"), train, export))
    run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"])
    with serving(tmp_path / "model.legcf") as (base, _):
        answer = json.loads(urllib.request.urlopen(f"{base}/recommend/0?k=3", timeout=30).read())
    assert len(answer["items"]) == 3


def test_a_backbone(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKBONES, "last-hop", module(BACKBONE, tmp_path).LastHop)
    run = trained(
        folder, tmp_path / "run", "--method", "full", "--backbone", "last-hop", "--set", "backbone.hops=4", "--dim", 8
    )
    assert json.loads((run / "config.json").read_text())["backbone"] == {"name": "last-hop", "hops": 4}
    assert json.loads(legcf("methods", "last-hop", "--json").out)["backbones"]["last-hop"]["options"]["hops"]


def test_a_solver(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ("--preset", "graph", "--set", "method.c=8", "--dim", 8)
    said = refused("train", folder, "--out", tmp_path / "no", *small, "--set", "method.update=alike")
    assert "method.update = 'alike' is not possible: choose one of matching-pursuit, pinv, pinv-refit, or none." in said
    monkeypatch.setitem(SOLVERS, "alike", module(SOLVER, tmp_path).solve)
    run = trained(folder, tmp_path / "run", *small, "--set", "method.update=alike", "--set", "training.keep=last")
    told = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert ["update" in line for line in told if line["stage"] == "alternate"] == [True, True]


def test_a_loss(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain differentiable function; with a gradient written by hand it is the same one."""
    full = ("--method", "full", "--dim", 8, "--set", "training.negatives=3", "--set", "training.keep=last")
    said = refused("train", folder, "--out", tmp_path / "no", *full, "--set", "training.loss=hinge", "--quiet")
    assert "training.loss = 'hinge' is not one of bpr, cosine, softmax, squared." in said
    added = module(LOSS, tmp_path)
    curves = []
    for name in ("hinge", "by_hand"):
        monkeypatch.setitem(LOSSES, name, Loss(getattr(added, name), "each"))
        run = trained(folder, tmp_path / name, *full, "--set", f"training.loss={name}")
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        curves.append([line["loss"] for line in lines if line["loss"] is not None])
    assert curves[0] == curves[1]
    assert curves[0][1] < curves[0][0]


def test_a_metric(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained with, chosen by, printed and compared."""
    full = ("--method", "full", "--dim", 8)
    said = refused("train", folder, "--out", tmp_path / "no", *full, "--set", "training.monitor=first@5", "--quiet")
    assert "training.monitor = 'first@5' is not a metric such as ndcg@20" in said
    monkeypatch.setitem(METRICS, "first", module(METRIC, tmp_path).first_right)
    run = trained(folder, tmp_path / "run", *full, "--set", "training.monitor=first@5")
    known = json.loads((run / "metrics.json").read_text())
    answer = legcf("evaluate", run, "-k", 1, "-k", 20, "--json")
    found = json.loads(answer.out)["metrics"]
    assert found["first@1"] == found["first@20"] == found["precision@1"] == known["test"]["first@5"]
    assert "first" in legcf("evaluate", run).out


def test_a_command(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(folder, tmp_path / "run", "--method", "full", "--dim", 8)
    assert legcf("popular", run).code == 2
    (tmp_path / "popular.py").write_text(COMMAND)
    monkeypatch.setattr(legcf_cli, "__path__", [*legcf_cli.__path__, str(tmp_path)])
    monkeypatch.setitem(app.COMMANDS, "popular", app.command_of("popular"))
    found = json.loads(legcf("popular", run, "--json").out)
    counts = planted(40, 40).train.item_degrees
    assert list(found.values()) == sorted(counts.tolist(), reverse=True)[:3]
    assert "Popular" in legcf("popular", run).out
    assert "--k 0 is not possible" in refused("popular", run, "--k", 0)
    assert "Print the items that most users" in legcf("--help").out
