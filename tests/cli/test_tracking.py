# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest

from legcf.cli.tracking import numbers
from tests.cli.conftest import QUICK
from tests.cli.typed import legcf, refused
from tests.helpers import planted, write_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(planted(40, 40), tmp_path / "planted")


def test_numbers_of_a_line() -> None:
    line = {"stage": "train", "loss": 0.5, "refused": True, "validation": {"ndcg@20": 0.25}, "epoch": 2}
    assert numbers(line) == {"loss": 0.5, "validation/ndcg@20": 0.25, "epoch": 2.0}


def test_tensorboard(folder: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    out = tmp_path / "run"
    answer = legcf("train", folder, "--out", out, "--preset", "paper", "--log", "tensorboard", *QUICK)
    assert answer.code == 0, answer.err
    events = EventAccumulator(str(out / "tensorboard"))
    events.Reload()
    lines = (out / "metrics.jsonl").read_text().splitlines()
    assert len(events.Scalars("validation/ndcg@20")) == len(lines)
    assert len(events.Scalars("test/recall@20")) == 1


def test_mlflow(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    out = tmp_path / "run"
    answer = legcf("train", folder, "--out", out, "--preset", "paper", "--log", "mlflow", *QUICK)
    assert answer.code == 0, answer.err
    (run,) = mlflow.search_runs(experiment_names=["legcf"], output_format="list")
    assert run.data.params["method.c"] == "8"
    assert "test/recall_at_20" in run.data.metrics


def test_bad_input(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    assert "mlflow, tensorboard" in refused("train", folder, "--out", out, "--log", "paper", *QUICK)
    for package, name in (("torch.utils.tensorboard", "tensorboard"), ("mlflow", "mlflow")):
        monkeypatch.setitem(sys.modules, package, None)
        assert f"pip install 'legcf[{name}]'" in refused("train", folder, "--out", out, "--log", name, *QUICK)
    assert not out.exists()
