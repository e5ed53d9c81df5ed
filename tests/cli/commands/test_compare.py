# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest
from scipy import stats

from legcf import Recommender
from legcf.evaluation import evaluate_per_user
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
