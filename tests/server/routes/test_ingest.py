# SPDX-License-Identifier: Apache-2.0
"""Events and availability over HTTP: known to the next answer, kept over restarts, never counted twice."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from legcf.export.build import build
from legcf.export.options import ExportOptions
from legcf.features.encoder import FeatureEncoder
from legcf.modelfile.served_model import EVENT_WEIGHTS, ServedModel
from legcf.scoring.extend import NewItem, with_new_items
from legcf.scoring.scorer import Request, Scorer
from legcf.server.app import create_app
from legcf.server.routes.query import QueryApi
from legcf.server.routes.services import Services
from legcf.server.settings import Settings
from legcf.server.state.event_log import FILE_NAME, EventLog, LogMark
from legcf.server.state.log_entries import Described, Withdrawn, new_event

from ...device.golden import base
from ...served import Toy, make_toy


@contextmanager
def told(path: Path, folder: Path, **settings: Any) -> Iterator[TestClient]:
    EventLog(folder, create=True).close()
    with TestClient(create_app(Settings(str(path), access_log=False, events=str(folder), **settings))) as client:
        yield client


@pytest.fixture
def client(model_file: Path, tmp_path: Path) -> Iterator[TestClient]:
    with told(model_file, tmp_path / "log") as client:
        yield client


def _send(client: TestClient, *events: tuple[Any, Any, str | None]) -> dict[str, Any]:
    body = {"events": [{"user": user, "item": item, "id": name} for user, item, name in events]}
    answer = client.post("/interactions", json=body)
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


def _ids(answer: Any) -> list[Any]:
    return [item["id"] for item in answer.json()["items"]]


def test_off_unless_asked_for(model_file: Path) -> None:
    with TestClient(create_app(Settings(str(model_file), access_log=False))) as client:
        assert client.post("/interactions", json={"events": [{"user": "u1", "item": "i/1"}]}).status_code == 404
        assert client.put("/items/i/1", json={"available": False}).status_code == 404
        assert client.get("/api/model").json()["accepts_events"] is False


def test_a_worker_opens_the_log_once(model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    EventLog(tmp_path, create=True).close()
    opened: list[str] = []
    start = EventLog.__init__
    monkeypatch.setattr(EventLog, "__init__", lambda log, folder: (opened.append(folder), start(log, folder))[1])
    create_app(Settings(str(model_file), access_log=False, events=str(tmp_path)))
    assert opened == [str(tmp_path)]


def test_the_order_of_events_counts(tmp_path: Path) -> None:
    plain = base(14)
    assert plain.pooling is not None
    model = replace(plain, pooling=replace(plain.pooling, half_life=1.0))
    model.save(tmp_path / "model.legcf")
    with told(tmp_path / "model.legcf", tmp_path / "log") as client:
        _send(client, ("new", 70, None), ("new", 20, None), ("new", 45, None))
        scores = [item["score"] for item in client.get("/recommend/new?k=5").json()["items"]]
    ordered, other = (Scorer(model).recommend(Request(items=items, k=5)) for items in ([70, 20, 45], [20, 45, 70]))
    assert scores == pytest.approx([entry.score for entry in ordered], rel=1e-4)
    assert scores != pytest.approx([entry.score for entry in other], rel=1e-2)


def test_the_next_answer_knows_an_event(client: TestClient, model: ServedModel) -> None:
    before = _ids(client.get("/recommend/u4?k=5"))
    first = before[0]
    answer = _send(client, ("u4", first, "one"), ("u4", "new-item", "two"))
    assert answer["model"] == client.get("/ready").json()["model"]
    assert (answer["new"], answer["repeated"], answer["unknown_items"]) == (2, 0, ["new-item"])
    expected = [entry.id for entry in Scorer(model).recommend(Request(user="u4", items=[first], k=5))]
    assert _ids(client.get("/recommend/u4?k=5")) == expected != before
    many = client.post("/recommend", json={"requests": [{"user": "u4", "k": 5}]}).json()["results"][0]
    assert [item["id"] for item in many["items"]] == expected
    assert first in [item["id"] for item in client.get("/api/history?user=u4").json()["items"]]
    again = _send(client, ("u4", first, "one"), ("u4", "i/9", "two"))
    assert (again["new"], again["repeated"]) == (0, 2)
    assert _ids(client.get("/recommend/u4?k=5")) == expected


def test_long_requests_know_it_too(client: TestClient) -> None:
    first = _ids(client.get("/recommend/u4?k=60&explain=50"))[0]
    _send(client, ("u4", first, None))
    assert first not in _ids(client.get("/recommend/u4?k=60&explain=50"))


def test_somebody_new_is_known_by_events(client: TestClient) -> None:
    assert client.get("/recommend/stranger").status_code == 404
    _send(client, ("stranger", "i/1", None), ("stranger", "i/4", None))
    answer = client.get("/recommend/stranger?k=4&explain=1")
    assert answer.json()["user"] == "stranger"
    assert answer.json()["fallback"] is None
    assert {int(item[2:]) % 3 for item in _ids(answer)} == {1}
    assert not {"i/1", "i/4"} & set(_ids(answer))
    assert client.get("/api/history?user=stranger").json()["count"] == 2


def test_what_is_not_available_is_not_recommended(client: TestClient, model_file: Path, tmp_path: Path) -> None:
    before = _ids(client.get("/recommend/u4?k=5"))
    answer = client.put(f"/items/{before[0]}", json={"available": False})
    assert answer.json() | {"model": ""} == {"model": "", "item": before[0], "available": False, "known": True}
    client.put("/items", params={"item": before[1]}, json={"available": False})
    assert _ids(client.get("/recommend/u4?k=3")) == before[2:5]
    similar = _ids(client.get(f"/similar?item={before[2]}&k=80"))
    assert not {before[0], before[1]} & set(similar)
    assert client.put("/items/later", json={"available": False}).json()["known"] is False
    with told(model_file, tmp_path / "log") as again:  # another process with the same folder
        assert _ids(again.get("/recommend/u4?k=3")) == before[2:5]
        again.put(f"/items/{before[0]}", json={"available": True})
    assert _ids(client.get("/recommend/u4?k=3")) == [before[0], *before[2:4]]


def test_an_item_that_nobody_has_is_placed_by_what_is_said_of_it(placing_file: Path, tmp_path: Path) -> None:
    told_of = {"features": {"kind": "group 1"}, "title": "New one"}
    with told(placing_file, tmp_path / "log") as client:
        before = client.get("/recommend/u4?k=80").json()  # of group 1
        answer = client.put("/items/i/new", json=told_of).json()
        assert answer == {"model": f"{before['model']}+1", "item": "i/new", "available": None, "known": True}
        after = client.get("/recommend/u4?k=80").json()
        assert after["model"] == answer["model"]
        assert [item["title"] for item in after["items"] if item["id"] == "i/new"] == ["New one"]
        assert [item for item in after["items"] if item["id"] != "i/new"] == before["items"][: len(after["items"]) - 1]
        near = client.get("/similar?item=i/new&k=10")
        assert {int(item[2:]) % 3 for item in _ids(near)} == {1}
        assert "i/new" in _ids(client.get("/recommend/u4?k=90&explain=50"))  # by the process for long work
        client.put("/items/i/new", json={"available": False})
        assert "i/new" not in _ids(client.get("/recommend/u4?k=80"))
        _send(client, ("stranger", "i/new", None))  # somebody takes it, and is shown what is like it
        assert {int(item[2:]) % 3 for item in _ids(client.get("/recommend/stranger?k=5"))} == {1}
        moved = client.put("/items/i/new", json={"features": {"kind": "group 2"}, "available": True}).json()
        assert moved["model"] == f"{before['model']}+2"
    with told(placing_file, tmp_path / "log") as again:
        assert again.get("/ready").json()["model"] == moved["model"]
        assert {int(item[2:]) % 3 for item in _ids(again.get("/similar?item=i/new&k=10"))} == {2}
        assert again.get("/api/history?user=u4").status_code == 200


def test_a_new_file_has_what_was_said_of_items(placing_file: Path, model_file: Path, tmp_path: Path) -> None:
    path, placing = tmp_path / "model", ServedModel.load(placing_file)
    newer = with_new_items(placing, [NewItem.of(placing, "i/b", {"kind": "group 0"})])
    path.write_bytes(placing_file.read_bytes())
    with told(path, tmp_path / "log", reload_seconds=0.02) as client:
        for name in ("i/a", "i/b"):
            client.put(f"/items/{name}", json={"features": {"kind": "group 1"}})

        def served(model: ServedModel) -> dict[str, Any]:
            before = client.get("/ready").json()["model"]
            model.save(path)
            while (state := client.get("/health").json())["model"] == before:
                time.sleep(0.01)
            found: dict[str, Any] = state
            return found

        assert served(newer)["items"] == 92  # i/b is the file's own, i/a was told
        assert {int(item[2:]) % 3 for item in _ids(client.get("/similar?item=i/b&k=5&")) if item != "i/a"} == {0}
        assert served(ServedModel.load(model_file))["items"] == 90  # it places nothing, and says so in the log
        refused = client.put("/items/i/c", json={"features": {"kind": "group 1"}})
        assert refused.status_code == 409
        assert "--item-features" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"title": "New"}, 422),
        ({"available": True, "title": "New"}, 422),
        ({"features": {}}, 422),
        ({"features": {"kind": {"a": 1}}}, 422),
        ({"features": {"colour": "red"}}, 409),
        ({"features": {"kind": None}}, 409),
    ],
)
def test_what_cannot_be_placed_is_refused(placing_file: Path, tmp_path: Path, body: Any, status: int) -> None:
    with told(placing_file, tmp_path / "log") as client:
        answer = client.put("/items/i/new", json=body)
        assert (answer.status_code, isinstance(answer.json()["detail"], str)) == (status, True)
        assert client.get("/health").json()["items"] == 90
    assert not EventLog(tmp_path / "log").descriptions()


def test_a_log_of_before_knows_no_descriptions(tmp_path: Path) -> None:
    EventLog(tmp_path, create=True).close()
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("DROP TABLE items")
    log = EventLog(tmp_path)
    assert (log.descriptions(), log.end().described) == ([], 0)
    assert LogMark.from_card({"events": {"log": "x", "position": 3}}) == LogMark("x", 3, 0)
    log.close()
    again = EventLog(tmp_path, create=True)  # as a server opens it
    again.write([[Described("tea", {"kind": "a"}, None, 1.0), Described("tea", {"kind": "b"}, "Tea", 2.0)]])
    assert again.descriptions() == [Described("tea", {"kind": "b"}, "Tea", 2.0)]


def test_numbers_and_their_digits_are_one_id_and_other_spellings_are_not(tmp_path: Path) -> None:
    build(make_toy(1, text_ids=False), ExportOptions(t=2, c=10)).save(tmp_path / "model")
    with told(tmp_path / "model", tmp_path / "log") as client:
        first, second = _ids(client.get("/recommend/101?k=2"))
        _send(client, (101, first, "a"), ("101", str(second), "b"))
        assert not {first, second} & set(_ids(client.get("/recommend/101?k=80")))
        third = _ids(client.get("/recommend/101?k=1"))[0]
        for other in ("0101", "1_01", "+101", " 101", "１０１"):  # other spellings are other users
            assert client.get("/recommend", params={"user": other}).status_code == 404
            _send(client, (other, third, None))
        assert _ids(client.get("/recommend/101?k=1")) == [third]
    _, events = EventLog(tmp_path / "log").since()
    assert {event.user for event in events} == {"101", "0101", "1_01", "+101", " 101", "１０１"}


def _numbered(encoder: FeatureEncoder, path: Path) -> Path:
    """Save a model whose ids are numbers, and which learnt from features."""
    replace(build(make_toy(1, text_ids=False), ExportOptions(t=2, c=10)), encoder=encoder).save(path)
    return path


@pytest.mark.parametrize("number", [10**22, 2**63, -(2**63) - 1])
def test_an_id_that_the_ids_of_the_model_cannot_hold_is_refused(
    encoder: FeatureEncoder, tmp_path: Path, number: int
) -> None:
    with told(_numbered(encoder, tmp_path / "model"), tmp_path / "log") as client:
        before = client.get("/recommend/101?k=5").json()
        refused = client.put(f"/items/{number}", json={"features": {"kind": "group 1"}})
        assert refused.status_code == 409
        assert str(number) in refused.json()["detail"]
        assert client.get("/recommend/101?k=5").json() == before
    assert not EventLog(tmp_path / "log").descriptions()


def test_a_log_that_describes_such_an_id_is_served_without_it(
    encoder: FeatureEncoder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = EventLog(tmp_path / "log", create=True)
    log.write([[Described(name, {"kind": "group 1"}, None, 1.0) for name in (f"{10**22}", f"{2**63}", "-3", "7000")]])
    log.close()
    with told(_numbered(encoder, tmp_path / "model"), tmp_path / "log") as client:
        assert client.get("/health").json()["items"] == 92
        assert client.get("/similar/7000?k=3").status_code == client.get("/similar/-3").status_code == 200
        first = _ids(client.get("/recommend/101?k=1"))[0]
        client.put(f"/items/{first}", json={"available": False})
        assert first not in _ids(client.get("/recommend/101?k=80"))
    assert capsys.readouterr().err.count("item_not_placed") >= 2


def test_a_description_can_be_withdrawn(placing_file: Path, tmp_path: Path) -> None:
    with told(placing_file, tmp_path / "log") as client:
        before = client.get("/recommend/u4?k=80").json()
        missing = client.delete("/items/i/new")
        assert (missing.status_code, "no description" in missing.json()["detail"]) == (404, True)
        for path in ("/items/i/new", "/items?item=i/new"):
            client.put("/items/i/new", json={"features": {"kind": "group 1"}})
            assert client.get("/similar/i/new").status_code == 200
            answer = client.delete(path)
            assert answer.json() == {"model": before["model"], "item": "i/new", "available": None, "known": False}
            assert client.get("/similar/i/new").status_code == 404
            assert client.get("/recommend/u4?k=80").json() == before
            assert client.delete(path).status_code == 404
        client.put("/items/i/new", json={"features": {"kind": "group 2"}})
        assert client.get("/similar/i/new").status_code == 200
        client.put("/items/i/1", json={"features": {"kind": "group 2"}})
        assert client.delete("/items/i/1").json()["known"] is True  # an item of the file stays
    with told(placing_file, tmp_path / "log", api_key="secret") as again:
        assert again.get("/similar/i/new", headers={"X-API-Key": "secret"}).status_code == 200
        assert again.delete("/items/i/new").status_code == 401
    assert [entry.item for entry in EventLog(tmp_path / "log").descriptions()] == ["i/new"]


def test_a_withdrawal_in_the_same_transaction_counts(tmp_path: Path) -> None:
    log = EventLog(tmp_path, create=True)
    tea = Described("tea", {"kind": "a"}, None, 1.0)
    assert log.write([[tea], [Withdrawn("tea", 2.0)], [Withdrawn("tea", 3.0)], [Withdrawn("cup", 3.0)]]) == [1, 1, 0, 0]
    assert (log.descriptions(), log.last_description) == ([], 2)


@pytest.mark.parametrize("keep_history", [True, False])
def test_a_new_file_counts_no_event_twice(toy: Toy, keep_history: bool, tmp_path: Path) -> None:
    """A file that says it knows the log up to somewhere is asked for later events alone."""
    plain = build(toy, ExportOptions(t=3, c=12, history=keep_history))
    plain.save(tmp_path / "model")
    with told(tmp_path / "model", tmp_path / "log", reload_seconds=0.05) as client:
        _send(client, ("u4", "i/2", "a"), ("stranger", "i/1", "b"))
        mark = EventLog(tmp_path / "log").end()
        card: dict[str, Any] = {}
        mark.to_card(card)
        folded = replace(plain, card={**plain.card, "metrics": card})
        folded.save(tmp_path / "new")
    with told(tmp_path / "new", tmp_path / "log") as client:
        as_trained = [entry.id for entry in Scorer(plain).recommend(Request(user="u4", k=5))]
        assert _ids(client.get("/recommend/u4?k=5")) == as_trained
        assert _ids(client.get("/recommend/stranger?k=3"))  # whom the file does not have
        _send(client, ("u4", as_trained[0], "c"))
        assert as_trained[0] not in _ids(client.get("/recommend/u4?k=5"))


@pytest.mark.parametrize(
    "body",
    [
        {"events": []},
        {"events": [{"user": "u1"}]},
        {"events": [{"user": "u1", "item": True}]},
        {"events": [{"user": "u1", "item": "i/1", "time": -1}]},
        {"events": [{"user": "u1", "item": "i/1", "time": 1.7e12}]},
        {"events": [{"user": "u1", "item": "i/1", "id": ""}]},
        {"events": [{"user": "u1", "item": "i/1"}] * 1001},
    ],
)
def test_bad_events_are_refused_whole(client: TestClient, body: Any) -> None:
    answer = client.post("/interactions", json=body)
    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], str)


def test_a_disk_that_refuses_is_told(client: TestClient, tmp_path: Path) -> None:
    other = EventLog(tmp_path / "log")
    other._connection.execute("DROP TABLE events")
    answer = client.post("/interactions", json={"events": [{"user": "u1", "item": "i/1"}]})
    assert answer.status_code == 503
    assert "nothing of it was kept" in answer.json()["detail"]


@pytest.mark.parametrize("removed", [FILE_NAME, f"{FILE_NAME}-wal"])
def test_a_log_that_was_removed_acknowledges_nothing(client: TestClient, tmp_path: Path, removed: str) -> None:
    _send(client, ("u1", "i/1", None))
    (tmp_path / "log" / removed).unlink()
    answer = client.post("/interactions", json={"events": [{"user": "u1", "item": "i/2"}]})
    assert answer.status_code == 503
    assert "nothing of it was kept" in answer.json()["detail"]
    assert client.get("/recommend/u1").status_code in (200, 503)
    assert client.post("/recommend", json={"requests": [{"user": "u1"}]}).status_code in (200, 503)


def test_a_user_of_very_many_events_is_answered_beside_the_event_loop(model_file: Path, tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log", create=True)
    log.write([[new_event("u4", f"i/{3 * (n % 5) + 1}") for n in range(600)]])
    services = Services.start(Settings(str(model_file), access_log=False, events=str(tmp_path / "log")))
    at_once = QueryApi(services).recommend_at_once
    assert at_once("u4", b"k=5") is None
    assert at_once("u5", b"k=5") is not None
    with told(model_file, tmp_path / "log") as client:
        found = _ids(client.get("/recommend/u4?k=5"))
        assert found
        assert not {f"i/{3 * n + 1}" for n in range(5)} & set(found)
        batch = client.post("/recommend", json={"requests": [{"user": "u4", "k": 5}, {"user": "u5", "k": 1}]})
        assert [item["id"] for item in batch.json()["results"][0]["items"]] == found
        _send(client, ("u4", found[0], None))
        assert found[0] not in _ids(client.get("/recommend/u4?k=5"))


@pytest.mark.parametrize("position", [2**63, 10**400, -1, 1.5, True])
def test_a_mark_that_no_log_can_have_is_none(model: ServedModel, tmp_path: Path, position: Any) -> None:
    log = EventLog(tmp_path / "log", create=True)
    mark = {"events": {"log": log.name, "position": position}}
    replace(model, card={**model.card, "metrics": mark}).save(tmp_path / "model")
    with told(tmp_path / "model", tmp_path / "log") as client:
        assert client.get("/recommend/u1?k=2").status_code == 200
        assert client.get("/api/model").status_code == 200


@pytest.mark.parametrize("weights", ["nonsense", "view=1,view=2", 5, None, "k=1," * 100_000])
def test_weights_of_kinds_that_make_no_sense_are_none(model: ServedModel, tmp_path: Path, weights: Any) -> None:
    """The card of a file is anybody's."""
    odd = replace(model, card={**model.card, "metrics": {EVENT_WEIGHTS: weights}})
    odd.save(tmp_path / "model")
    with told(tmp_path / "model", tmp_path / "log") as client:
        answer = client.post("/interactions", json={"events": [{"user": "u1", "item": "i/1", "kind": "view"}]})
    assert answer.status_code == 409
    assert len(answer.json()["detail"]) < 500


@pytest.mark.parametrize("field", ["user", "item"])
def test_what_is_taken_back_has_ids_as_long_as_what_is_reported(client: TestClient, field: str) -> None:
    query = {"user": "u1", "item": "i/1", field: "x" * 513}
    assert client.delete("/interactions", params=query).status_code == 422
    assert client.post("/interactions", json={"events": [query]}).status_code == 422
