# SPDX-License-Identifier: Apache-2.0
"""The best model within a number of seconds: never worse than `fast`, made again without the clock."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.recommender import Recommender
from legcf.training import loop
from legcf.training.registry import resolve
from legcf.training.run import train
from legcf.training.selection.table_search import TableSearch
from legcf.training.session import Deadline, OutOfTime, TrainingOptions
from tests.cli.typed import legcf, refused
from tests.helpers import planted, write_folder

LIKE = ("--seed", 3, "--quiet")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(planted(150, 120), tmp_path_factory.mktemp("in_time") / "planted")


def read(run: Path, name: str = "metrics.json") -> Any:
    return json.loads((run / name).read_text())


def score(metrics: dict[str, Any]) -> float:
    validation = metrics["validation"]
    return float(np.sqrt(validation["recall@20"] * validation["ndcg@20"]))


def test_with_time_enough_it_is_not_worse_than_fast_and_can_be_made_again(data: Path, tmp_path: Path) -> None:
    run, fast, again = tmp_path / "run", tmp_path / "fast", tmp_path / "again"
    answer = legcf("train", data, "--seconds", 120, "--out", run, *LIKE)
    assert answer.code == 0, answer.err
    assert "kept within these seconds" in answer.out
    metrics = read(run)
    assert metrics["within"]["seconds"] == 120
    assert metrics["seconds"]["whole"] < 120
    assert read(run, "config.json")["training"]["seconds"] == 120
    assert legcf("train", data, "--preset", "fast", "--bytes", "auto", "--out", fast, *LIKE).code == 0
    assert score(metrics) >= score(read(fast))

    assert legcf("train", data, "--config", run / "model.json", "--out", again, "--quiet").code == 0
    assert read(again)["test"] == metrics["test"]
    assert "within" not in read(again)


def test_without_time_it_is_fast(data: Path, tmp_path: Path) -> None:
    run, fast = tmp_path / "run", tmp_path / "fast"
    assert legcf("train", data, "--seconds", 0.2, "--out", run, *LIKE).code == 0
    metrics = read(run)
    assert metrics["within"] == {"seconds": 0.2, "kept": "fast", "since": "there was no time for more"}
    assert legcf("train", data, "--preset", "fast", "--bytes", "auto", "--out", fast, *LIKE).code == 0
    assert metrics["test"] == read(fast)["test"]
    assert "For user 7" in legcf("recommend", run, "--user", 7).out


@pytest.mark.parametrize("seconds", [0.2, 120])
def test_final_is_within_the_time_as_well(data: Path, tmp_path: Path, seconds: float) -> None:
    run = tmp_path / "run"
    assert legcf("train", data, "--seconds", seconds, "--final", "--out", run, *LIKE).code == 0
    metrics = read(run)
    assert metrics["within"]["seconds"] == seconds
    assert metrics["final"]["pairs"] == planted(150, 120).known.num_pairs
    parts = read(run / "chosen")["seconds"]["whole"] + metrics["seconds"]["this_session"]
    assert metrics["seconds"]["whole"] == pytest.approx(parts)


def test_where_it_makes_no_sense_it_is_refused(data: Path, tmp_path: Path) -> None:
    words = ("train", data, "--seconds", 5, "--out", tmp_path / "run")
    assert "preset fast of legcf has nothing to select" in refused(*words, "--preset", "fast")
    assert "default of ease has nothing to select" in refused(*words, "--method", "ease")
    assert "cannot be continued" in refused(*words, "--resume")
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="nothing to select"):
        Recommender("popularity", seconds=5).fit(planted(40, 40))


def test_python_has_it_too_and_says_how_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    model = Recommender(seconds=120, quiet=False).fit(planted(150, 120))
    assert model.metrics["within"]["seconds"] == 120
    assert model.get_params()["seconds"] == 120
    assert model.config.training.seconds is None, "what was kept has no clock"
    said = capsys.readouterr()
    first, *lines = said.err.splitlines()
    assert "150 users" in first
    assert any(line.lstrip().startswith("fast") and "s left" in line for line in lines)
    assert any("% ahead" in line for line in lines)
    assert "kept within these seconds" in said.out


def test_python_says_at_the_end_what_the_command_line_says(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = legcf("train", data, "--preset", "fast", "--out", tmp_path / "run").out.splitlines()
    Recommender(preset="fast", quiet=False).fit(data)
    said = capsys.readouterr().out.splitlines()
    untimed = [[line for line in lines if "seconds" not in line and "memory" not in line] for lines in (typed, said)]
    assert untimed[0][:-1] == untimed[1], "all but the run and what to type next"
    assert "item-knn" in said[-1]
    assert "popularity" in said[-1]


def test_training_that_would_not_be_done_is_given_up(monkeypatch: pytest.MonkeyPatch, codes_are_tried: None) -> None:
    """The model before training is kept, just as it was evaluated."""
    monkeypatch.setattr(TableSearch, "best", lambda search, start_score: None)
    quick = {"epochs": 3, "batch_size": 40, "threads": 1}
    config = resolve(overrides={"method": {"c": 8, "dim": 16}, "training": quick, "ranking": {"bytes": 20_000}})
    dataset, much = planted(150, 120), Deadline(time.perf_counter() + 1000, unit=1e-3)
    usual = train(dataset, config, TrainingOptions(quiet=True, deadline=much))
    assert [line["epoch"] for line in usual.curve if line["stage"] == "pretrain"] == [1, 2, 3]
    monkeypatch.setattr(loop, "AFTER_TRAINING", 1e12)
    kept = train(dataset, config, TrainingOptions(quiet=True, deadline=much))
    assert [line["epoch"] for line in kept.curve if line["stage"] == "pretrain"] == []
    start = next(line for line in kept.curve if line.get("search", {}).get("start") == "legcf")
    assert kept.metrics["validation"]["ndcg@20"] == pytest.approx(start["validation"]["ndcg@20"])
    again = train(dataset, kept.config, TrainingOptions(quiet=True))
    np.testing.assert_allclose(again.model.ranking().items, kept.model.ranking().items, rtol=1e-5, atol=1e-6)


def test_a_deadline_answers_what_there_is_time_for() -> None:
    deadline = Deadline(time.perf_counter() + 100, unit=10)
    assert deadline.allows(9)
    assert not deadline.allows(9, seconds=11)
    with pytest.raises(OutOfTime):
        deadline.require(11)
    Deadline().require(1e9, seconds=1e9)
