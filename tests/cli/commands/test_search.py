# SPDX-License-Identifier: Apache-2.0
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from legcf.experiments import search
from legcf.experiments.search import SearchRequest, owner_mark
from legcf.training.loop import TrainingOptions
from legcf.training.registry import resolve
from tests.cli.typed import legcf, refused

SMALL = ("--method", "full", "--set", "method.dim=8", "--set", "training.batch_size=200", "--set", "training.epochs=3")
RATES = ("--over", "training.learning_rate=0.2,0.1,1e-9")


def trials(out: Path) -> list[optuna.trial.FrozenTrial]:
    storage = JournalStorage(JournalFileBackend(str(out / "trials.journal")))
    return optuna.load_study(study_name="search", storage=storage).trials


def test_search_resumes_and_writes_a_preset(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "search"
    first = legcf("search", folder, "--out", out, *SMALL, *RATES, "--trials", 2)
    assert first.code == 0, first.err
    assert len(trials(out)) == 2
    found = legcf("search", folder, "--out", out, *SMALL, *RATES, "--trials", 20, "--json")
    assert found.code == 0, found.err
    done = trials(out)
    tried = [trial.params["training.learning_rate"] for trial in done]
    usual = resolve("full", None, "default", 0, {}).training.learning_rate
    assert tried[0] == usual, "the method's own default comes first"
    assert sorted(tried) == sorted([1e-9, 0.1, 0.2, usual]), "every point once, then it ends"
    best = json.loads(found.out)
    assert best["best"]["validation ndcg@20"] == max(trial.value for trial in done if trial.value is not None)
    config = json.loads((out / "best.json").read_text())
    assert config["training"]["learning_rate"] == best["best"]["training.learning_rate"]
    answer = legcf("train", folder, "--config", out / "best.json", "--out", tmp_path / "run", "--quiet")
    assert answer.code == 0, answer.err
    assert json.loads((tmp_path / "run" / "config.json").read_text())["method"]["dim"] == 8


def test_a_line_that_was_cut_off_costs_its_trial_alone(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "search"
    assert legcf("search", folder, "--out", out, *SMALL, *RATES, "--trials", 2, "--quiet").code == 0
    journal = out / "trials.journal"
    journal.write_bytes(journal.read_bytes()[:-9])
    for _ in range(2):
        found = legcf("search", folder, "--out", out, *SMALL, *RATES, "--trials", 3, "--quiet")
        assert found.code == 0, found.err
    assert sum(trial.value is not None for trial in trials(out)) >= 2


def pretended(dataset: Any, config: Any, options: TrainingOptions) -> Any:
    """Return a score without any training."""
    return SimpleNamespace(metrics={"num_params": 1, "validation": {config.training.monitor: 0.5}})


def test_a_journal_without_one_of_its_lines_is_searched_on_or_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("legcf.experiments.search.train", pretended)
    out = tmp_path / "search"
    command = ("search", folder, "--out", out, *SMALL, *RATES, "--quiet", "--trials")
    assert legcf(*command, 2).code == 0
    lines = (out / "trials.journal").read_bytes().splitlines(keepends=True)
    codes = []
    for number in range(len(lines)):
        (out / "trials.journal").write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
        answer = legcf(*command, 3)
        assert "Traceback" not in answer.err
        codes.append(answer.code)
        assert answer.code == 0 or "trials.journal is damaged" in answer.err
    assert codes.count(2) == 2, "those that say what the two trials tried"
    (out / "trials.journal").write_bytes(b"".join(lines).replace(b'"values":[0.5]', b'"values":null'))
    assert "trials.journal is damaged" in refused(*command, 3)


def test_settings_in_another_order_are_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legcf.experiments.search.train", pretended)
    out = tmp_path / "search"
    command = ("search", folder, "--out", out, *SMALL, *RATES, "--over", "training.loss=bpr,squared", "--quiet")
    assert legcf(*command, "--trials", 1).code == 0
    lines = (out / "trials.journal").read_text().splitlines(keepends=True)
    first, second = (number for number, line in enumerate(lines) if '"param_name"' in line)
    lines[first], lines[second] = lines[second], lines[first]
    (out / "trials.journal").write_text("".join(lines))
    assert "trials.journal is damaged" in refused(*command, "--trials", 3)


@pytest.mark.parametrize("reached", [6, 7])
def test_a_process_that_is_gone_before_it_drew_costs_nothing(
    reached: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the first trial, which is the default: it begins in line 6 and says whose it is in line 7."""
    monkeypatch.setattr("legcf.experiments.search.train", pretended)
    out = tmp_path / "search"
    command = ("search", folder, "--out", out, *SMALL, *RATES, "--quiet", "--trials")
    assert legcf(*command, 1).code == 0
    lines = (out / "trials.journal").read_text().splitlines(keepends=True)[:reached]
    (out / "trials.journal").write_text("".join(lines).replace(f" {os.getpid()} ", " 9999999 "))
    answer = legcf(*command, 4)
    assert answer.code == 0, answer.err
    usual = resolve("full", None, "default", 0, {}).training.learning_rate
    rates = [one.params.get("training.learning_rate") for one in trials(out) if one.state.name == "COMPLETE"]
    assert len(rates) == len(set(rates))
    assert reached == 6 or (len(rates) == 4 and usual in rates)


def test_what_ctrl_c_broke_off_is_tried_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    out = tmp_path / "search"
    command = ("search", folder, "--out", out, *SMALL, *RATES, "--quiet", "--trials", 9)
    monkeypatch.setattr("legcf.experiments.search.train", interrupted)
    for _ in range(2):
        assert legcf(*command).code == 130
    monkeypatch.setattr("legcf.experiments.search.train", pretended)
    assert legcf(*command).code == 0
    ended = [one.params["training.learning_rate"] for one in trials(out) if one.state.name == "COMPLETE"]
    assert sorted(ended) == sorted({1e-9, 0.1, 0.2, resolve("full", None, "default", 0, {}).training.learning_rate})


def test_a_trial_that_came_too_late_is_tried_when_more_are_asked_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when two workers begin the last trial at the same moment."""
    monkeypatch.setattr("legcf.experiments.search.train", pretended)
    out = tmp_path / "search"
    command = ("search", folder, "--out", out, *SMALL, *RATES, "--quiet", "--trials")
    assert legcf(*command, 2).code == 0
    request = SearchRequest("full", over={"training.learning_rate": (0.2, 0.1, 1e-9)})
    study = search._study(out, search._sampler(request))
    late = study.ask()
    with pytest.raises(search._Enough):
        search._attempt(late, request, lambda config, on_epoch: {}, trials=2)
    study.tell(late, state=optuna.trial.TrialState.FAIL)
    assert legcf(*command, 4).code == 0
    ended = [one.params["training.learning_rate"] for one in trials(out) if one.state.name == "COMPLETE"]
    assert len(ended) == len(set(ended)) == 4


def test_bad_trials_are_pruned(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With trainings whose score is their learning rate."""

    def pretend(dataset: Any, config: Any, options: TrainingOptions) -> Any:
        for _ in range(5):
            assert options.on_epoch is not None
            options.on_epoch({"validation": {config.training.monitor: config.training.learning_rate}})
        return SimpleNamespace(metrics={"num_params": 1})

    monkeypatch.setattr("legcf.experiments.search.train", pretend)
    rates = ",".join(str(k / 10) for k in range(1, 11))
    out = tmp_path / "search"
    answer = legcf("search", folder, "--out", out, *SMALL, "--over", f"training.learning_rate={rates}", "--trials", 10)
    assert answer.code == 0, answer.err
    states = {trial.params["training.learning_rate"]: trial.state.name for trial in trials(out)}
    assert states[1.0] == "COMPLETE"
    assert "PRUNED" in states.values()
    assert json.loads((out / "best.json").read_text())["training"]["learning_rate"] == 1.0


def test_trial_of_a_process_that_is_gone_is_tried_again(folder: Path, tmp_path: Path) -> None:
    out, over = tmp_path / "search", ("--over", "training.learning_rate=0.1,0.2")
    assert legcf("search", folder, "--out", out, *SMALL, *over, "--trials", 1).code == 0
    (before,) = trials(out)
    storage = JournalStorage(JournalFileBackend(str(out / "trials.journal")))
    left = optuna.load_study(study_name="search", storage=storage).ask()
    choices = before.distributions["training.learning_rate"]
    left.storage.set_trial_param(left._trial_id, "training.learning_rate", choices.to_internal_repr(0.2), choices)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left.set_user_attr("owner", f"{owner_mark().rsplit(' ', 2)[0]} {gone.pid} {time.time():.2f}")
    assert legcf("search", folder, "--out", out, *SMALL, *over, "--trials", 5).code == 0
    states = [trial.state.name for trial in trials(out)]
    assert states == ["COMPLETE", "FAIL", "COMPLETE", "COMPLETE"]
    assert trials(out)[2].params["training.learning_rate"] == 0.2


def test_the_default_is_the_least_that_is_found(folder: Path, tmp_path: Path) -> None:
    """Where everything in the space is refused or worse, the method's own settings are the best."""
    out = tmp_path / "search"
    words = ("--over", "training.learning_rate=1e-9", "--over", "training.loss=bpr,hinge", "--trials", 10)
    answer = legcf("search", folder, "--out", out, *SMALL, *words, "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["best"]["trial"] == 0
    assert {trial.state.name for trial in trials(out)} == {"COMPLETE", "FAIL"}


def test_what_it_says_to_do_next_can_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With data in a folder with a space, read in a way that has to be said."""
    lines = [f"{user};{item};{1 + (user + item) % 5}" for user in range(20) for item in range(user % 3, 20, 3)]
    (tmp_path / "my data").mkdir()
    (tmp_path / "my data" / "log.csv").write_text("who;what;stars\n" + "\n".join(lines))
    monkeypatch.chdir(tmp_path)
    reading = ("--user-col", "who", "--item-col", "what", "--delimiter", ";", "--min-rating", 2)
    answer = legcf("search", "my data/log.csv", *reading, *SMALL, "--over", "training.epochs=1,2", "--trials", 2)
    assert answer.code == 0, answer.err
    _, _, command = answer.out.rpartition("Next: ")
    words = shlex.split(command)
    assert words[0] == "legcf"
    trained = legcf(*words[1:], "--json")
    assert trained.code == 0, trained.err
    monitored = [line for line in answer.out.splitlines() if "validation ndcg@20" in line]
    assert f"{json.loads(trained.out)['validation']['ndcg@20']:.4f}" in monitored[0]
    assert json.loads(Path("RUN/config.json").read_text())["data"]["options"]["min_rating"] == 2


@pytest.mark.parametrize("words", [("--preset", "fast"), ("--method", "als"), ("--method", "ease")])
def test_what_is_searched_has_an_effect(folder: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    answer = legcf("search", folder, "--out", tmp_path / "search", *words, "--trials", 6)
    assert answer.code == 0, answer.err
    assert len({trial.value for trial in trials(tmp_path / "search")}) > 1
    assert "Best of" in answer.out


def test_a_preset_that_selects_by_itself_leaves_what_it_does_not_select() -> None:
    space = SearchRequest("legcf").space()
    assert set(space) == {"ranking.list_bits", "ranking.popularity_weight"}
    assert "method.anchor_weight" in SearchRequest("legcf", preset="paper").space()
    assert "method.als.alpha" in SearchRequest("legcf", preset="items-only").space()


def test_without_effect_there_is_no_best(folder: Path, tmp_path: Path) -> None:
    """And a refused trial is a line with its reason, not a traceback of Optuna."""
    words = ("--method", "ease", "--over", "method.dense_items=-1,5000,10000")
    answer = legcf("search", folder, "--out", tmp_path / "search", *words)
    assert answer.code == 0, answer.err
    assert "All 2 finished trials scored the same" in answer.out
    assert "Best of" not in answer.out
    (failed,) = (line for line in answer.err.splitlines() if "fail" in line)
    assert "method.dense_items = -1 is not possible" in failed
    assert "Traceback" not in answer.err


@pytest.mark.slow
def test_workers_share_the_trials_and_one_tells_the_result(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "search"
    words = ["search", folder, "--out", out, *SMALL, *RATES, "--trials", 3, "--workers", 2, "--json"]
    done = subprocess.run([sys.executable, "-m", "legcf", *map(str, words)], capture_output=True, text=True, check=True)
    tried = [one for one in trials(out) if one.state.name in ("COMPLETE", "PRUNED")]
    assert len({one.params["training.learning_rate"] for one in tried}) == len(tried) == 3
    assert json.loads(done.stdout)["trials"] == sum(one.state.name == "COMPLETE" for one in tried)
    assert "legcf:" not in done.stderr


def test_bad_input(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "search"
    assert "no method `none`" in refused("search", folder, "--out", out, "--method", "none")
    assert "--trials 0" in refused("search", folder, "--out", out, "--trials", 0)
    assert "--workers 0" in refused("search", folder, "--out", out, "--workers", 0)
    assert "section.key=value" in refused("search", folder, "--out", out, "--over", "rate")
    assert not out.exists()
    bad = ("--set", "training.loss=hinge", "--over", "training.learning_rate=0.1,0.2,0.3", "--trials", 3)
    assert "Every trial failed" in refused("search", folder, "--out", out, *SMALL, *bad, "--quiet")
    assert "other settings" in refused("search", folder, "--out", out, *SMALL, *RATES)
    (out / "trials.journal").write_text("no journal")
    assert "trials.journal is damaged" in refused("search", folder, "--out", out, *SMALL, *bad)
    assert "not [0.1]" in refused("search", folder, "--out", out, *SMALL, "--over", "training.learning_rate=[0.1]")
    assert "as a whole" in refused("search", folder, "--out", out, "--method", "als", "--over", "method.als=1")
    nothing = refused("search", folder, "--out", tmp_path / "none", "--method", "popularity")
    assert "nothing to search with preset default" in nothing
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "pip install 'legcf[search]'" in refused("search", folder, "--out", tmp_path / "new", *SMALL)
