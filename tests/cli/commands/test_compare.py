# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest
from scipy import stats

from legcf import Recommender
from legcf.evaluation.evaluate import evaluate_per_user
from tests.cli.conftest import QUICK
from tests.cli.typed import legcf, refused
from tests.helpers import planted, write_folder


@pytest.fixture(scope="module")
def other(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "other"
    answer = legcf("train", folder, "--out", out, "--seed", 4, "--preset", "paper", *QUICK)
    assert answer.code == 0, answer.err
    return out


def test_side_by_side_with_scipys_tests(run: Path, other: Path) -> None:
    answer = legcf("compare", run, other, "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    models = [Recommender.load(folder) for folder in (run, other)]
    dataset = models[0].dataset()
    first, second = (evaluate_per_user(model.ranking, dataset.test, (10, 20))[0] for model in models)
    assert [entry["run"] for entry in found["runs"]] == [str(run), str(other)]
    assert found["runs"][0]["against_first"] is None
    for name in ("ndcg@20", "recall@10"):
        told = found["runs"][1]["against_first"][name]
        assert found["runs"][1]["metrics"][name] == pytest.approx(second[name].mean())
        assert told["t_test"] == pytest.approx(stats.ttest_rel(second[name], first[name]).pvalue)
        assert told["difference"] == pytest.approx((second[name] - first[name]).mean())


def test_table(run: Path, other: Path) -> None:
    answer = legcf("compare", run, other, run, "-k", 5)
    assert answer.code == 0, answer.err
    assert "ndcg@5" in answer.out
    assert answer.out.count("against") == 2


def test_bad_input(run: Path, tmp_path: Path) -> None:
    assert "at least two" in refused("compare", run)
    assert "-k 0" in refused("compare", run, run, "-k", 0)
    assert "is not a run" in refused("compare", run, tmp_path / "nowhere")
    data = write_folder(planted(40, 40, seed=9), tmp_path / "data")
    assert legcf("train", data, "--out", tmp_path / "far", "--preset", "paper", *QUICK).code == 0
    assert "different data or splits" in refused("compare", run, tmp_path / "far")


def test_tables_for_papers_and_sheets(run: Path, other: Path, tmp_path: Path) -> None:
    for name in ("runs.tex", "runs.csv"):
        answer = legcf("compare", run, other, "-k", 20, "--output", tmp_path / name, "--json")
        assert answer.code == 0, answer.err
    score = json.loads(answer.out)["runs"][1]["metrics"]["ndcg@20"]
    assert f"{score:.4f}" in (tmp_path / "runs.tex").read_text()
    assert str(score) in (tmp_path / "runs.csv").read_text()
    assert "must end in .tex or .csv" in refused("compare", run, other, "--output", tmp_path / "runs.xls")


def test_folds(folder: Path, run: Path, tmp_path: Path) -> None:
    words = ("--folds", 3, "--quiet")
    fast, knn = tmp_path / "fast", tmp_path / "knn"
    answer = legcf("train", folder, "--preset", "fast", *words, "--out", fast)
    assert answer.code == 0, answer.err
    assert "deviation" in answer.out
    measured = json.loads(legcf("train", folder, "--method", "popularity", *words, "--out", knn, "--json").out)
    assert {path.name for path in knn.iterdir()} == {"folds.json", "per_user.npz"}
    scores = [fold["ndcg@20"] for fold in measured["folds"]]
    assert measured["metrics"]["ndcg@20"]["mean"] == pytest.approx(sum(scores) / 3)
    found = json.loads(legcf("compare", fast, knn, "--json").out)
    assert found["runs"][1]["metrics"]["ndcg@20"] == measured["metrics"]["ndcg@20"]["mean"]
    assert found["runs"][1]["against_first"]["ndcg@20"]["t_test"] < 0.01
    assert "±" in legcf("compare", fast, knn).out
    assert "not measured on folds" in refused("compare", fast, run)
    assert "not empty" in refused("train", folder, *words, "--out", fast)
    assert "leave out --final, --resume" in refused(
        "train", folder, *words, "--final", "--resume", "--out", tmp_path / "x"
    )
    (knn / "per_user.npz").write_bytes(b"")
    assert "damaged" in refused("compare", fast, knn)
