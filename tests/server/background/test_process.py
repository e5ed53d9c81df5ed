# SPDX-License-Identifier: Apache-2.0
"""The process that does the long work: the same answers as the server's own, and none that are of another model."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
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
def helper(place: Path) -> Iterator["Sync"]:
    helper = Sync(place)
    yield helper
    helper.close()


class Sync:
    """A helper and the event loop that it works for."""

    def __init__(self, place: Path) -> None:
        self._runner, self.helper = asyncio.Runner(), Helper(place, LiveState())

    def is_ready(self) -> bool:
        return self._runner.run(self.helper.is_ready())

    def perform(self, loaded: LoadedModel, job: Job) -> tuple[bytes, bytes]:
        return self._runner.run(self.helper.perform(loaded, job))

    def ask(self, question: Callable[[Helper], Awaitable[None]]) -> None:
        async def run() -> None:
            await question(self.helper)

        self._runner.run(run())

    def kill(self) -> None:
        assert self.process_id is not None
        psutil.Process(self.process_id).kill()

    @property
    def process_id(self) -> int | None:
        return self.helper.process_id

    def close(self) -> None:
        self._runner.run(self.helper.close())
        self._runner.close()


def _job() -> Job:
    return next(
        recommend_jobs([Ask(user="u1", k=5, explain=3), Ask(user="stranger"), Ask(items=["i/2"], k=2)], False, 90)
    )


def test_answers_are_those_of_the_server_itself(helper: Sync, place: Path) -> None:
    loaded = LoadedModel.of(place)
    assert helper.is_ready()
    for job in (_job(), MAP, CARD, _job()):
        assert helper.perform(loaded, job) == perform(loaded, job, LiveState())
    assert helper.process_id is not None
    results, errors = helper.perform(loaded, _job())
    assert [result is None for result in json.loads(b"[" + results + b"]")] == [False, True, False]
    assert [error is None for error in json.loads(b"[" + errors + b"]")] == [True, False, True]


def test_a_model_that_only_the_server_has_answers_there(
    helper: Sync, place: Path, listed_model: ServedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    before = LoadedModel.of(place)
    helper.perform(before, _job())
    listed_model.save(place)
    after = LoadedModel.of(place)
    assert helper.perform(before, _job()) == perform(before, _job(), LiveState())  # still kept by the process
    assert helper.perform(after, _job()) == perform(after, _job(), LiveState())
    place.write_bytes(b"not a model")
    alone = Sync(place)
    assert alone.perform(after, _job()) == perform(after, _job(), LiveState())
    alone.close()
    assert "helper_ended" not in capsys.readouterr().err


def test_a_process_that_ended_is_told_and_started_again(
    place: Path, model: ServedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(place)
    loaded, helper = LoadedModel.of(place), Sync(place)
    assert helper.is_ready()
    first = helper.process_id
    helper.kill()
    assert helper.perform(loaded, _job()) == perform(loaded, _job(), LiveState())
    assert "helper_ended" in capsys.readouterr().err
    helper.perform(loaded, _job())
    assert helper.process_id != first
    helper.close()


def test_nobody_waits_for_the_process_to_start(place: Path, model: ServedModel) -> None:
    model.save(place)
    loaded, helper = LoadedModel.of(place), Sync(place)
    answer = helper.perform(loaded, _job())
    try:
        assert helper.process_id is not None
        psutil.Process(helper.process_id).suspend()  # it takes no job before long
        assert helper.perform(loaded, _job()) == answer == perform(loaded, _job(), LiveState())
    finally:
        helper.close()


def test_a_process_that_hangs_is_given_up(place: Path, model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model.save(place)
    loaded, helper = LoadedModel.of(place), Sync(place)
    assert helper.is_ready()
    assert helper.process_id is not None
    monkeypatch.setattr("legcf.server.background.process._MAX_SECONDS", 0.5)
    psutil.Process(helper.process_id).suspend()
    assert helper.perform(loaded, _job()) == perform(loaded, _job(), LiveState())
    assert helper.process_id is None
    helper.close()


def test_a_process_that_never_starts_holds_up_nobody(
    place: Path, model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("legcf.server.background.process._MAX_SECONDS", 0.5)
    model.save(place)
    loaded, helper = LoadedModel.of(place), Sync(place)
    helper.perform(loaded, _job())
    assert helper.process_id is not None
    psutil.Process(helper.process_id).suspend()  # before it is ready

    async def ask_for_the_map(helper: Helper) -> None:
        async with asyncio.timeout(30):
            assert await helper.perform(loaded, MAP) == perform(loaded, MAP, LiveState())

    helper.ask(ask_for_the_map)
    helper.close()


def test_a_process_whose_server_was_killed_ends_without_a_word(place: Path, model: ServedModel) -> None:
    model.save(place)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "legcf.server.background.process", str(place)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_answer_that_nobody_waits_for_is_not_taken_for_the_next(
    helper: Sync, place: Path, model: ServedModel
) -> None:
    model.save(place)
    loaded = LoadedModel.of(place)
    assert helper.is_ready()

    async def cancel(helper: Helper) -> None:
        asking = asyncio.create_task(helper.perform(loaded, MAP))
        await asyncio.sleep(0.01)  # it was sent
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    helper.ask(cancel)
    assert helper.perform(loaded, _job()) == perform(loaded, _job(), LiveState())


def test_no_thread_is_started_for_a_job(helper: Sync, place: Path, model: ServedModel) -> None:
    """Threads take Python's lock from the event loop: 150 jobs a second made single requests wait."""
    model.save(place)
    loaded = LoadedModel.of(place)
    assert helper.is_ready()
    helper.perform(loaded, _job())

    async def count(helper: Helper) -> None:
        before = threading.enumerate()
        asking = asyncio.create_task(helper.perform(loaded, _job()))
        while not asking.done():
            await asyncio.sleep(0)
            assert threading.enumerate() == before

    helper.ask(count)


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
