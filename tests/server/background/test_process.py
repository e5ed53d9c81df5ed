# SPDX-License-Identifier: Apache-2.0
"""The process that does the long work: the same answers as the server's own, and none that are of another model."""

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from legcf.modelfile.served_model import ServedModel
from legcf.server.background.jobs import CARD, LIGHT, MAP, Job, perform, recommend_jobs, weight
from legcf.server.background.process import Helper
from legcf.server.schemas import Ask
from legcf.server.state.live_state import LiveState
from legcf.server.state.loaded_model import LoadedModel


@pytest.fixture(scope="module")
def place(model: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("helped") / "model"
    model.save(path)
    return path


@pytest.fixture(scope="module")
def helper(place: Path) -> Iterator[Helper]:
    helper = Helper(place, LiveState())
    yield helper
    helper.close()


def _job() -> Job:
    return next(
        recommend_jobs([Ask(user="u1", k=5, explain=3), Ask(user="stranger"), Ask(items=["i/2"], k=2)], False, 90)
    )


def test_answers_are_those_of_the_server_itself(helper: Helper, place: Path) -> None:
    loaded = LoadedModel.of(place)
    assert helper.is_ready()
    for job in (_job(), MAP, CARD, _job()):
        assert helper.perform(loaded, job) == perform(loaded, job, LiveState())
    assert helper.process_id is not None
    results, errors = helper.perform(loaded, _job())
    assert [result is None for result in json.loads(b"[" + results + b"]")] == [False, True, False]
    assert [error is None for error in json.loads(b"[" + errors + b"]")] == [True, False, True]


def test_a_model_that_only_the_server_has_answers_there(
    helper: Helper, place: Path, listed_model: ServedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    before = LoadedModel.of(place)
    helper.perform(before, _job())
    listed_model.save(place)
    after = LoadedModel.of(place)
    assert helper.perform(before, _job()) == perform(before, _job(), LiveState())  # still kept by the process
    assert helper.perform(after, _job()) == perform(after, _job(), LiveState())
    place.write_bytes(b"not a model")
    alone = Helper(place, LiveState())
    assert alone.perform(after, _job()) == perform(after, _job(), LiveState())
    alone.close()
    assert "helper_ended" not in capsys.readouterr().err


def test_a_process_that_ended_is_told_and_started_again(
    place: Path, model: ServedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(place)
    loaded, helper = LoadedModel.of(place), Helper(place, LiveState())
    assert helper.is_ready()
    first = helper.process_id
    helper.close()
    assert helper.perform(loaded, _job()) == perform(loaded, _job(), LiveState())
    assert "helper_ended" in capsys.readouterr().err
    helper.perform(loaded, _job())
    assert helper.process_id != first
    helper.close()


def test_nobody_waits_for_the_process_to_start(place: Path, model: ServedModel) -> None:
    model.save(place)
    loaded, helper = LoadedModel.of(place), Helper(place, LiveState())
    answer = helper.perform(loaded, _job())
    try:
        assert helper.process_id is not None
        psutil.Process(helper.process_id).suspend()  # it takes no job before long
        assert helper.perform(loaded, _job()) == answer == perform(loaded, _job(), LiveState())
    finally:
        helper.close()


def test_a_process_that_hangs_is_given_up(place: Path, model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legcf.server.background.process._MAX_SECONDS", 0.5)
    model.save(place)
    loaded, helper = LoadedModel.of(place), Helper(place, LiveState())
    assert helper.is_ready()
    assert helper.process_id is not None
    psutil.Process(helper.process_id).suspend()
    assert helper.perform(loaded, _job()) == perform(loaded, _job(), LiveState())
    assert helper.process_id is None
    helper.close()


def test_asks_are_cut_into_small_jobs_in_their_order() -> None:
    asks = [Ask(user=user, k=500, explain=50) for user in range(5)] + [Ask(user=user) for user in range(5, 105)]
    jobs = list(recommend_jobs(asks, True, 90))
    assert [len(job["asks"]) for job in jobs] == [1, 1, 1, 1, 26, 75]
    assert [entry["user"] for job in jobs for entry in job["asks"]] == list(range(105))
    assert weight(Ask(user=1, k=20, explain=20), 90) <= LIGHT < weight(asks[0], 90)


def test_caps_weigh_as_much_as_the_items_that_they_may_look_at() -> None:
    capped = Ask(user=1, k=25, cap={"brand": 1})
    assert weight(capped, 1_000) <= LIGHT < weight(capped, 150_000)
    assert weight(Ask(features={"age": 30, "likes": ["tea", "cups"]}), 90) <= LIGHT
    assert weight(Ask(features={"likes": ["tea"] * 500}), 90) > LIGHT
    assert weight(Ask(user=1, k=25), 150_000) <= LIGHT
