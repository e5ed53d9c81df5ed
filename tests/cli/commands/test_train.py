# SPDX-License-Identifier: Apache-2.0
"""`legcf train`: what it writes, and every way it says no."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from legcf.recommender import Recommender
from legcf.scoring.scorer import Request, Scorer
from tests import forked
from tests.cli.conftest import QUICK
from tests.cli.typed import legcf, refused


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_writes_a_whole_run(run: Path) -> None:
    assert files(run) == {
        "config.json",
        "metrics.jsonl",
        "metrics.json",
        "model.json",
        "model.safetensors",
        "answers.legcf",
        "checkpoint/state.safetensors",
    }
    metrics = json.loads((run / "metrics.json").read_text())
    wanted = {
        "test",
        "validation",
        "num_params",
        "storage_bytes",
        "seconds",
        "peak_rss_mb",
        "protocol",
        "preset",
        "seed",
    }
    assert wanted <= set(metrics)
    for part in ("test", "validation"):
        assert {"recall@20", "ndcg@20", "precision@20", "hitrate@20", "mrr@20", "map@20", "coverage@20"} <= set(
            metrics[part]
        )
    assert metrics["num_params"] == 8 * 8 + 2 * 80
    assert (metrics["protocol"], metrics["preset"], metrics["seed"]) == ("legcf", "paper", 3)
    config = json.loads((run / "config.json").read_text())
    assert config["method"]["c"] == 8
    assert config["training"]["negatives"] == 5
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in lines if line["epoch"]] == ["pretrain"] * 2 + ["alternate"] * 2


def test_user_features_reach_the_run_the_file_and_an_update(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    likes = rng.random((240, 90)) < np.where((np.arange(240) % 3)[:, None] == np.arange(90) % 3, 0.3, 0.02)
    pairs = [f"u{user},i{item}" for user, item in zip(*np.nonzero(likes), strict=True)]
    (tmp_path / "log.csv").write_text("\n".join(["user,item", *pairs]))
    lines = [f"u{user},town {user % 3},{20 + user % 50}" for user in range(240)]
    (tmp_path / "users.csv").write_text("\n".join(["user,town,age", *lines, "new,town 1,30"]))
    run, log, table = tmp_path / "run", tmp_path / "log.csv", tmp_path / "users.csv"
    answer = legcf("train", log, "--user-features", table, "--preset", "fast", "--out", run, "--quiet")
    assert answer.code == 0, answer.err
    assert re.search(r"Users without items: recall 0\.\d+ by features, 0\.\d+ by popularity, so features", answer.out)
    assert legcf("export", run, tmp_path / "model.legcf").code == 0
    (tmp_path / "more.csv").write_text("user,item\nu1,i2\nlater,i4\nlater,fresh\n")
    assert legcf("update", run, tmp_path / "more.csv", "--out", tmp_path / "run2").code == 0
    files = (run / "answers.legcf", tmp_path / "model.legcf", tmp_path / "run2" / "answers.legcf")
    for town in range(3):
        asked = Request(features={"town": f"town {town}"}, k=8)
        for file in files:
            assert {int(str(one.id)[1:]) % 3 for one in Scorer.load(file).recommend(asked)} == {town}
        for folder in (run, tmp_path / "run2"):
            found = Recommender.load(folder).recommend(features=asked.features, k=8)["item"].to_list()
            assert {int(item[1:]) % 3 for item in found} == {town}
    table.write_text("user,town\nx,y\n")
    assert "'x'" in refused(
        "train", log, "--user-features", table, "--preset", "fast", "--out", tmp_path / "no", "--quiet"
    )


def test_json_is_the_metrics_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    answer = legcf("train", folder, "--out", tmp_path / "run", "--json", *QUICK)
    assert answer.code == 0
    assert json.loads(answer.out) == json.loads((tmp_path / "run" / "metrics.json").read_text())


def test_the_table_says_what_to_do_next(folder: Path, tmp_path: Path) -> None:
    answer = legcf("train", folder, "-o", tmp_path / "run", *QUICK)
    assert "recall@20" in answer.out
    assert "legcf recommend" in answer.out


def test_says_what_it_kept(tmp_path: Path) -> None:
    rows = [(user, item) for user in range(12) for item in range(8) if (user + item) % 3]
    (tmp_path / "shop.csv").write_text(
        "customer,product,stars\n" + "".join(f"{u},{i},{1 + i % 5}\n" for u, i in [*rows, rows[0]])
    )
    words = ("train", tmp_path / "shop.csv", "--user-col", "customer", *QUICK)
    answer = legcf(*words, "--out", tmp_path / "all")
    assert "shop: 65 rows → 12 users, 8 items, 64 pairs; 1 duplicate merged; ratings ignored" in answer.out
    answer = legcf(*words[:-1], "--out", tmp_path / "some", "--min-rating", 3)
    assert "rated below 3.0 left out" in answer.err.splitlines()[0]
    assert "ignored" not in answer.err
    legcf("data", "prepare", tmp_path / "shop.csv", tmp_path / "ready", "--user-col", "customer", "-q")
    answer = legcf("train", tmp_path / "ready", *QUICK, "--out", tmp_path / "prepared")
    assert "1 duplicate merged; ratings ignored" in answer.out


def test_one_item_and_too_wide_vectors_are_refused_in_fitting_words(folder: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "run")
    (tmp_path / "one.csv").write_text("user,item\na,x\nb,x\nb,x\n")
    assert "one has only one item, 'x' in 3 rows" in refused("train", tmp_path / "one.csv", *out)
    (tmp_path / "shop.csv").write_text("1,2\n3,4\n")
    assert "--no-header" in refused("train", tmp_path / "shop.csv", *out)
    said = refused("train", folder, *out, "--dim", 100_000, "-q")
    assert said.endswith("--dim 100,000 is too wide: at most --dim 4,096 is possible here.")
    said = refused("train", folder, *out, "--dim", 211, "--budget", 500, "-q")
    assert "at most --dim 210 is possible here with this budget of stored values" in said
    assert not (tmp_path / "run").exists()


def test_budgets_with_an_exponent(folder: Path, tmp_path: Path) -> None:
    answer = legcf("train", folder, "--out", tmp_path / "run", "--budget", "1e3", "--dim", 8, "--epochs", 1, "-q")
    assert answer.code == 0, answer.err
    assert json.loads((tmp_path / "run" / "config.json").read_text())["method"]["budget"] == 1000
    assert "method.budget" in refused("train", folder, "--out", tmp_path / "r", "--budget", "1e3x")


def test_a_config_file_repeats_a_run(run: Path, folder: Path, tmp_path: Path) -> None:
    answer = legcf("train", folder, "--out", tmp_path / "again", "--config", run / "config.json", "--quiet")
    assert answer.code == 0, answer.err
    first, again = (json.loads((place / "metrics.json").read_text()) for place in (run, tmp_path / "again"))
    assert first["test"] == again["test"]
    assert first["seed"] == again["seed"]


def test_former_keys_are_reported_in_one_line(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"training": {"adam_memory": 0.9, "leave_out": false}, "method": {"d": 4}}')
    words = ("train", folder, "--out", tmp_path / "run", "--config", tmp_path / "old.json", "--preset", "paper")
    typed = (*QUICK, "--set", "training.beta2=0.99", "--set", "ranking.length=0.5")
    log = tmp_path / "log"
    assert forked.command(*words, *typed, log=log).wait(60) == 0, log.read_text()
    for former, current in (
        ("training.adam_memory", "training.beta2"), ("training.leave_out", "training.exclude_target"),
        ("method.d", "method.dim"), ("ranking.length", "ranking.norm_power"),
    ):  # fmt: skip
        assert log.read_text().splitlines().count(f"legcf: The key `{former}` is called `{current}` now.") == 1
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["training"]["beta2"] == 0.99, "what is typed goes before the file, whatever its name"
    assert config["method"]["dim"] == 8
    assert config["ranking"]["norm_power"] == 0.5


def test_options_go_before_the_file(run: Path, folder: Path, tmp_path: Path) -> None:
    legcf("train", folder, "--out", tmp_path / "r", "--config", run / "config.json", "--seed", 8, "--epochs", 1, "-q")
    config = json.loads((tmp_path / "r" / "config.json").read_text())
    assert (config["seed"], config["training"]["epochs"], config["method"]["c"]) == (8, 1, 8)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "method.t=9", "--set", "method.c=8"], "lower t"),
        (["--set", "method.c=81"], "lower c"),
        (["--set", "training.lerning_rate=1"], "did you mean `training.learning_rate`"),
        (["--set", "method.name=full"], "--method"),
        (["--set", "seed=3"], "training.epochs=5"),
        (["--set", "training=5"], "training"),
        (["--set", "training.patience=many"], "training.patience"),
        (["--set", "training.learning_rate=-1"], "training.learning_rate"),
        (["--set", "training.epochs"], "key=value"),
        (["--set", "=5"], "key=value"),
        (["--preset", "best"], "default"),
        (["--method", "magic"], "legcf"),
        (["--backbone", "magic"], "lightgcn"),
        (["--preset", "paper", "--set", "backbone.layers=-1"], "backbone.layers"),
        (["--preset", "paper", "--backbone", "ngcf", "--set", "backbone.layers=-1"], "backbone.layers"),
        (["--preset", "paper", "--backbone", "lr-gccf", "--set", "backbone.layers=-1"], "backbone.layers"),
        (["--preset", "paper", "--backbone", "ngcf", "--set", "backbone.message_dropout=1"], "message_dropout"),
        (["--preset", "paper", "--backbone", "ngcf", "--set", "backbone.node_dropout=-0.1"], "node_dropout"),
        (["--preset", "paper", "--backbone", "ngcf", "--set", "backbone.adjacency=none"], "'norm'"),
        (["--preset", "paper", "--backbone", "ngcf", "--set", "backbone.widths=[8,0,8]"], "backbone.widths.1"),
        (["--preset", "paper", "--backbone", "ngcf", "--set", "backbone.widths=[8]"], "3 layers"),
        (["--preset", "paper", "--backbone", "ngcf", "--set", "backbone.widths=[8,8,4]"], "method.update_on"),
        (["--preset", "paper", "--backbone", "lr-gccf", "--set", "backbone.node_dropout=0.1"], "backbone.node_dropout"),
        (["--preset", "paper", "--set", "backbone.transform=true"], "backbone.transform"),
        (["--backbone", "ngcf"], "--preset"),
        (["--protocol", "magic"], "protocol"),
        (["--seed", "-1"], "seed"),
        (["--set", "training.loss=hinge"], "bpr"),
        (["--set", "training.monitor=taste@20"], "ndcg@20"),
    ],
)
def test_settings_that_cannot_be(options: list[str], said: str, folder: Path, tmp_path: Path) -> None:
    assert said in refused("train", folder, "--out", tmp_path / "run", *QUICK, *options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not exist"),
        ("", "JSON"),
        ("{", "JSON"),
        ("[1]", "object"),
        ('{"trainin": {}}', "trainin"),
        ('{"training": 5}', "object"),
        ('{"method": "legcf"}', "object"),
        ('{"data": []}', "object"),
        ('{"method": {"q": 1}}', "method.q"),
        ('{"seed": "x"}', "seed"),
        ('{"preset": ["paper"]}', "preset"),
        ('{"data": {"options": {"protocl": "legcf"}}}', "protocl"),
    ],
)
def test_config_files_that_cannot_be(content: str | None, said: str, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    assert said in refused("train", folder, "--out", tmp_path / "run", "--config", path)
    assert not (tmp_path / "run").exists()


def test_data_that_cannot_be(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert "missing" in refused("train", tmp_path / "missing", "--out", out)
    (tmp_path / "empty.csv").write_text("")
    assert "empty" in refused("train", tmp_path / "empty.csv", "--out", out)
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    lines = (broken / "train.txt").read_text().splitlines()
    lines[4] += " x7"
    (broken / "train.txt").write_text("\n".join(lines))
    assert "line 5" in refused("train", broken, "--out", out)
    assert not out.exists()


def test_a_folder_in_use_is_left_as_it_is(folder: Path, tmp_path: Path) -> None:
    """Even one with nothing but a config.json: it may be a run that has just begun."""
    out = tmp_path / "run"
    out.mkdir()
    (out / "config.json").write_text("{}")
    assert "not empty" in refused("train", folder, "--out", out, *QUICK)
    assert files(out) == {"config.json"}
    (tmp_path / "file").write_text("mine")
    assert "file" in refused("train", folder, "--out", tmp_path / "file", *QUICK)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_place_that_cannot_be_written(folder: Path) -> None:
    assert "Cannot write" in refused("train", folder, "--out", "/proc/legcf-run", *QUICK)


DIVERGES = ("--set", "training.learning_rate=1e30", "--set", "training.batch_size=8")


def test_a_run_that_fails_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    message = refused("train", folder, "--out", tmp_path / "run", *QUICK, "-q", *DIVERGES)
    assert "training.learning_rate" in message
    assert list(tmp_path.iterdir()) == []


class TestResume:
    @pytest.fixture
    def copy(self, run: Path, tmp_path: Path) -> Path:
        return Path(shutil.copytree(run, tmp_path / "run"))

    def again(self, folder: Path, out: Path, *more: object) -> tuple[object, ...]:
        return ("train", folder, "--out", out, "--resume", "--seed", 3, "--preset", "paper", *QUICK, *more)

    def test_a_finished_run_stays_what_it_was(self, copy: Path, run: Path, folder: Path) -> None:
        assert legcf(*self.again(folder, copy)).code == 0
        first, again = (json.loads((place / "metrics.json").read_text()) for place in (run, copy))
        assert first["test"] == again["test"]

    def test_nothing_there(self, folder: Path, tmp_path: Path) -> None:
        answer = legcf(*self.again(folder, tmp_path / "run"))
        assert answer.code == 0, answer.err
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "letter.txt").write_text("mine")
        assert "no run to resume, but other files" in refused(*self.again(folder, tmp_path / "other"))

    def test_another_config(self, copy: Path, folder: Path) -> None:
        before = files(copy)
        assert "method.t" in refused(*self.again(folder, copy, "--set", "method.t=3"))
        assert files(copy) == before

    def test_other_data(self, copy: Path, folder: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        shutil.copytree(folder, other)
        lines = (other / "train.txt").read_text().splitlines()
        (other / "train.txt").write_text("\n".join([*lines[:-1], lines[-1].rsplit(" ", 1)[0]]) + "\n")
        before = files(copy)
        assert "other data" in refused(*self.again(other, copy))
        assert files(copy) == before

    def test_a_damaged_checkpoint(self, copy: Path, folder: Path) -> None:
        path = copy / "checkpoint" / "state.safetensors"
        path.write_bytes(path.read_bytes()[:200])
        assert "damaged" in refused(*self.again(folder, copy))
        assert path.exists()


def test_starts_from_the_vectors_of_another_run(folder: Path, tmp_path: Path) -> None:
    full = ("train", folder, "--method", "full", "--set", "method.dim=8", "--epochs", "1", "-q")
    assert legcf(*full, "--out", tmp_path / "full").code == 0
    answer = legcf("train", folder, "--out", tmp_path / "run", "--warm-start", tmp_path / "full", *QUICK)
    assert answer.code == 0, answer.err
    wider = refused(
        "train", folder, "--out", tmp_path / "wide", "--warm-start", tmp_path / "full", *QUICK, "--set", "method.dim=9"
    )
    assert "method.dim" in wider
    assert "does not exist" in refused(
        "train", folder, "--out", tmp_path / "none", "--warm-start", tmp_path / "nowhere.npy", *QUICK
    )


def test_the_last_lines_say_how_far_it_is_above_the_baselines(folder: Path, tmp_path: Path) -> None:
    with_line = legcf("train", folder, "--out", tmp_path / "run", *QUICK)
    assert re.search(r"item-knn \(0\.\d{4}\) and .* popularity \(0\.\d{4}\) in test ndcg@20\.", with_line.out)
    without = legcf("train", folder, "--out", tmp_path / "other", "--no-baselines", *QUICK)
    assert "item-knn" not in without.out


def test_a_baseline_is_not_compared_with_itself_and_has_no_width(folder: Path, tmp_path: Path) -> None:
    answer = legcf("train", folder, "--method", "item-knn", "--out", tmp_path / "run")
    assert answer.code == 0
    assert "popularity (" in answer.out
    assert "item-knn (" not in answer.out
    words = ("train", folder, "--method", "popularity", "--dim", "8", "--out", tmp_path / "wide")
    assert "no width either" in refused(*words)


def test_without_pairs_to_validate_by_no_number_is_made_up(tmp_path: Path) -> None:
    rows = "".join(f"u{user},i{(user + step) % 5}\n" for user in range(6) for step in range(2))
    (tmp_path / "few.csv").write_text(f"user,item\n{rows}")
    for name, options in (("untested", ()), ("tested", ("--test-ratio", 0.3, "--validation-ratio", 0))):
        answer = legcf("train", tmp_path / "few.csv", "--out", tmp_path / name, *options)
        assert answer.code == 0, answer.err
        for shown in (answer.out, legcf("info", tmp_path / name).out):
            assert re.search(r"validation ndcg@20\s*│\s*no pairs to validate by", shown)
        assert "trained once more" not in answer.out


@pytest.mark.parametrize("items", [1, 2, 20, 300, 499, 501, 70_000])
def test_fast_takes_any_number_of_items(items: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(items)
    pairs = {(int(user), int(item)) for user in range(120) for item in rng.integers(0, items, max(8, items // 90))}
    (tmp_path / "log.csv").write_text("user,item\n" + "".join(f"{user},i{item}\n" for user, item in sorted(pairs)))
    words = ("train", tmp_path / "log.csv", "--preset", "fast", "--out", tmp_path / "run", "--quiet")
    if items == 1:
        assert "has only one item" in refused(*words)
        return
    assert legcf(*words).code == 0
    answer = legcf("recommend", tmp_path / "run", "--user", 3, "--include-seen", "-k", 2, "--json")
    assert len(json.loads(answer.out)["recommendations"]) == 2
