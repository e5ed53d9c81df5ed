# SPDX-License-Identifier: Apache-2.0
"""`legcf evaluate`, and every command's answer to a run folder that is none."""

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import DenseTable
from tests.cli.typed import legcf, refused
from tests.helpers import planted, write_folder


@pytest.mark.parametrize("part", ["test", "validation"])
def test_says_what_the_run_said(part: str, run: Path) -> None:
    answer = legcf("evaluate", run, "--part", part, "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found["metrics"] == pytest.approx(json.loads((run / "metrics.json").read_text())[part])
    assert found["protocol"] == "legcf"


@pytest.mark.usefixtures("forked_ranks")
def test_two_workers_find_what_one_finds(run: Path) -> None:
    told = legcf("evaluate", run, "--json", "--workers", 2)
    assert told.code == 0, told.err
    alone = json.loads(legcf("evaluate", run, "--json").out)["metrics"]
    assert json.loads(told.out)["metrics"] == pytest.approx(alone)


def test_any_list_length(run: Path) -> None:
    answer = legcf("evaluate", run, "-k", 3, "-k", 7)
    assert "@3" in answer.out
    assert "@7" in answer.out
    assert "ndcg" in answer.out
    assert "-k 0" in refused("evaluate", run, "-k", 0)
    assert "test or validation" in refused("evaluate", run, "--part", "train")


def test_data_that_has_changed_or_gone(tmp_path: Path) -> None:
    from tests.cli.conftest import QUICK

    folder, run = write_folder(planted(40, 40), tmp_path / "data"), tmp_path / "run"
    assert legcf("train", folder, "--out", run, *QUICK).code == 0
    write_folder(planted(40, 40, seed=1), folder)
    assert "has changed" in refused("evaluate", run)
    shutil.rmtree(folder)
    assert str(folder) in refused("evaluate", run)
    assert legcf("recommend", run, "--user", 1).code == 0


class TestModelFiles:
    """Damaged, foreign, cut short, or a pickle: one sentence from every command that loads a model."""

    @pytest.fixture
    def copy(self, run: Path, tmp_path: Path) -> Path:
        return Path(shutil.copytree(run, tmp_path / "run"))

    @pytest.mark.parametrize("damage", ["cut", "pickle", "empty", "flipped", "gone", "checkpoint"])
    def test_arrays(self, damage: str, copy: Path) -> None:
        path = copy / "model.safetensors"
        content = path.read_bytes()
        if damage == "gone":
            path.unlink()
        elif damage == "checkpoint":
            shutil.copy(copy / "checkpoint" / "state.safetensors", path)
        else:
            flipped = content[:-9] + bytes([content[-9] ^ 64]) + content[-8:]
            path.write_bytes(
                {"cut": content[:-50], "pickle": pickle.dumps([1]), "empty": b"", "flipped": flipped}[damage]
            )
        assert "model.safetensors" in refused("evaluate", copy)
        (copy / "answers.legcf").unlink()
        assert "model.safetensors" in refused("recommend", copy, "--user", 1)

    @pytest.mark.parametrize("damage", ["cut", "pickle", "empty", "flipped", "other"])
    def test_what_a_run_answers_from(self, damage: str, run: Path, copy: Path) -> None:
        path = copy / "answers.legcf"
        content = path.read_bytes()
        flipped = content[:-9] + bytes([content[-9] ^ 64]) + content[-8:]
        if damage == "other":  # of another model: the run itself answers
            model = ServedModel.load(path)
            model.card["sha256"] = "0"
            replace(model, item_rows=DenseTable(-model.item_rows.vectors(slice(None)))).save(path)
            answers = [json.loads(legcf("recommend", one, "--user", 7, "--json").out) for one in (copy, run)]
            items = [[row["item"] for row in one["recommendations"]] for one in answers]
            assert items[0] == items[1]
            return
        path.write_bytes({"cut": content[:-50], "pickle": pickle.dumps([1]), "empty": b"", "flipped": flipped}[damage])
        assert "answers.legcf" in refused("recommend", copy, "--user", 1)

    @pytest.mark.parametrize(
        "content", ["", "{}", "[]", "null", '{"format": "legcf-model", "format_version": 99}', '{"format": "onnx"}']
    )
    def test_description(self, content: str, copy: Path) -> None:
        (copy / "model.json").write_text(content)
        assert "model.json" in refused("recommend", copy, "--user", 1)
        assert "model.json" in refused("info", copy)

    @pytest.mark.parametrize("missing", ["config", "metrics", "curve"])
    def test_description_without(self, missing: str, copy: Path) -> None:
        described = json.loads((copy / "model.json").read_text())
        del described[missing]
        (copy / "model.json").write_text(json.dumps(described))
        assert "damaged" in refused("recommend", copy, "--user", 1)

    def test_not_a_run(self, tmp_path: Path, run: Path) -> None:
        assert "not a folder" in refused("evaluate", tmp_path / "nowhere")
        assert "no finished model" in refused("recommend", tmp_path, "--user", 1)
        shutil.copy(run / "config.json", tmp_path / "config.json")
        assert "--resume" in refused("evaluate", tmp_path)
