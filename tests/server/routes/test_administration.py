# SPDX-License-Identifier: Apache-2.0
"""Who has the key lists users and items, exports and deletes them; what is deleted stays deleted."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from legcf.export.build import build
from legcf.export.options import ExportOptions
from legcf.modelfile.served_model import ServedModel
from legcf.server.app import create_app
from legcf.server.settings import Settings
from legcf.server.state.event_log import FILE_NAME

from ...served import ITEMS, USERS, Toy
from .test_ingest import told

KEY = {"X-API-Key": "secret"}


@contextmanager
def administered(path: Path, folder: Path, **settings: Any) -> Iterator[TestClient]:
    with told(path, folder, api_key="secret", **settings) as client:
        client.headers.update(KEY)
        yield client


def _send(client: TestClient, user: str, *items: str) -> None:
    answer = client.post("/interactions", json={"events": [{"user": user, "item": item} for item in items]})
    assert answer.status_code == 200, answer.text


def test_nothing_of_it_without_the_key(model_file: Path, tmp_path: Path) -> None:
    with told(model_file, tmp_path) as client:  # a server that has none
        assert client.get("/users").status_code == 404
        assert client.delete("/users/u1").status_code == 404
        assert client.delete("/items/i/1?whole=true").status_code == 409
        assert "/users" not in client.get("/openapi.json").json()["paths"]
    with administered(model_file, tmp_path) as client:
        for method, path in (("GET", "/users"), ("GET", "/items"), ("GET", "/user-data/u1"), ("DELETE", "/users/u1")):
            assert client.request(method, path, headers={"X-API-Key": "wrong"}).status_code == 401
    with TestClient(create_app(Settings(str(model_file), "secret", access_log=False)), headers=KEY) as client:
        assert client.get("/users").json()["count"] == USERS  # without a log there is nothing to delete from
        assert client.delete("/users/u1").status_code == 404


def test_lists_have_everybody_and_everything_once(model_file: Path, tmp_path: Path) -> None:
    with administered(model_file, tmp_path) as client:
        _send(client, "newcomer", "i/1", "elsewhere")
        _send(client, "u1", "i/1")
        client.put("/items/i/3", json={"available": False})
        users = [entry for start in (0, 50) for entry in client.get(f"/users?offset={start}&limit=50").json()["users"]]
        assert len(users) == len({entry["user"] for entry in users}) == USERS + 1
        by_name = {entry["user"]: entry for entry in users}
        assert by_name["u1"] == {"user": "u1", "in_file": True, "events": 1}
        assert by_name["newcomer"] == {"user": "newcomer", "in_file": False, "events": 2}
        answer = client.get("/items?limit=1000").json()
        items = {entry["item"]: entry for entry in answer["items"]}
        assert answer["count"] == len(items) == ITEMS + 1
        assert [items[name]["available"] for name in ("i/1", "i/3")] == [True, False]
        assert (items["i/1"]["events"], items["i/1"]["title"]) == (2, "Title 1 é")
        assert (items["elsewhere"]["known"], items["elsewhere"]["events"]) == (False, 1)


def test_a_deleted_user_stays_deleted_until_new_events(
    model_file: Path,
    listed_model: ServedModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, folder = tmp_path / "model", tmp_path / "log"
    path.write_bytes(model_file.read_bytes())
    with administered(path, folder, reload_seconds=0.05) as client:
        _send(client, "u4", "i/2")
        client.post("/impressions", json={"impressions": [{"user": "u4", "items": ["i/9"]}]})
        assert client.get("/recommend/u4").status_code == 200
        held = client.get("/user-data/u4").json()
        assert held["in_file"]
        assert len(held["history"]) > 3
        assert [event["item"] for event in held["events"]] == ["i/2"]
        assert [shown["item"] for shown in held["impressions"]] == ["i/9"]
        capsys.readouterr()
        deleted = client.delete("/users/u4").json()
        assert (deleted["in_file"], deleted["events"], deleted["impressions"]) == (True, 1, 1)
        (line,) = [json.loads(line) for line in capsys.readouterr().err.splitlines() if "user_deleted" in line]
        assert (line["event"], line["events"], line["impressions"]) == ("administration", 1, 1)
        assert line["user_sha256"] == hashlib.sha256(b"u4").hexdigest()
        assert line["request_id"]
        assert '"u4"' not in json.dumps(line)

        def is_gone(client: TestClient) -> None:
            assert client.get("/recommend/u4").status_code == 404
            assert client.get("/recommend/u4?k=50&explain=50").status_code == 404  # by the helper process
            many = client.post("/recommend", json={"requests": [{"user": "u4"}]}).json()
            assert many["errors"][0]["status"] == 404
            assert client.get("/similar-users/u4").status_code == 404
            assert "u4" not in [entry["id"] for entry in client.get("/similar-users/u1?k=100").json()["items"]]
            assert "u4" not in client.get("/api/users?q=u4").json()["users"]
            assert client.get("/api/history?user=u4").status_code == 404
            assert client.get("/user-data/u4").status_code == 404
            assert client.delete("/users/u4").status_code == 404
            assert "u4" not in [entry["user"] for entry in client.get("/users").json()["users"]]

        is_gone(client)
        tag = client.get("/ready").json()["model"]
        listed_model.save(tmp_path / "other")
        os.replace(tmp_path / "other", path)
        while client.get("/ready").json()["model"] == tag:
            pass
        is_gone(client)
    with administered(path, folder) as client:
        is_gone(client)
        _send(client, "u4", "i/5")
        stranger = client.post("/recommend", json={"requests": [{"items": ["i/5"]}]}).json()["results"][0]
        assert client.get("/recommend/u4").json()["items"] == stranger["items"]  # nothing of the file is used
        assert [entry["id"] for entry in client.get("/api/history?user=u4").json()["items"]] == ["i/5"]
        held = client.get("/user-data?user=u4").json()
        assert (held["in_file"], held["history"], len(held["events"])) == (False, [], 1)
        assert client.delete("/users?user=u4").status_code == 200
        is_gone(client)


def test_nothing_of_a_deleted_user_is_left_on_disk_but_the_id(model_file: Path, tmp_path: Path) -> None:
    with administered(model_file, tmp_path) as client:
        body = {"events": [{"user": "person-7", "item": "rare-book-8", "id": "order-9"}]}
        client.post("/interactions", json=body)
        client.post("/impressions", json={"impressions": [{"user": "person-7", "items": ["rare-lamp-6"]}]})
        on_disk = [file.read_bytes() for file in tmp_path.glob(f"{FILE_NAME}*")]
        assert any(b"rare-book-8" in content for content in on_disk)
        client.delete("/users/person-7")
        left = b"".join(file.read_bytes() for file in tmp_path.glob(f"{FILE_NAME}*"))
        assert [name for name in (b"rare-book-8", b"order-9", b"rare-lamp-6") if name in left] == []


def test_events_of_the_same_moment_as_a_deletion_keep_their_order(model_file: Path, tmp_path: Path) -> None:
    from legcf.server.state.event_log import EventLog
    from legcf.server.state.log_entries import DeletedUser, new_event

    log = EventLog(tmp_path, create=True)
    counts = log.write([[new_event("a", "x")], [DeletedUser("a", 1.0)], [new_event("a", "y"), new_event("b", "z")]])
    assert counts == [1, 1, 2]
    assert [item for _, item, _ in log.of_user("a")] == ["y"]
    log.close()


def test_a_deleted_item_is_gone_until_it_is_available_again(placing_file: Path, tmp_path: Path) -> None:
    with administered(placing_file, tmp_path) as client:
        client.put("/items/new", json={"features": {"kind": "group 1"}, "title": "New"})
        first = client.get("/recommend/u4").json()["items"][0]["id"]
        _send(client, "u5", first, "new")
        client.post("/impressions", json={"impressions": [{"user": "u5", "items": [first]}]})
        for item in (first, "new"):
            answer = client.delete(f"/items/{item}?whole=true").json()
            assert (answer["available"], answer["known"]) == (False, item == first)
            assert item not in [one["id"] for one in client.get("/recommend/u4?k=90").json()["items"]]
        assert client.get("/user-data/u5").json()["events"] == []
        assert client.get("/user-data/u5").json()["impressions"] == []
        assert client.delete("/items/never-heard-of?whole=true").status_code == 404
    with administered(placing_file, tmp_path) as client:
        assert first not in [one["id"] for one in client.get("/recommend/u4?k=90").json()["items"]]
        assert client.get("/similar/new").status_code == 404
        client.put(f"/items/{first}", json={"available": True})
        assert first in [one["id"] for one in client.get("/recommend/u4?k=90").json()["items"]]


def test_administration_of_users_with_vectors_alone(toy: Toy, tmp_path: Path) -> None:
    """A file without histories: the vector of a deleted user is not used either."""
    build(toy, ExportOptions(t=3, c=12, history=False), toy.validation).save(tmp_path / "model")
    with administered(tmp_path / "model", tmp_path / "log", popular_for_unknown=True) as client:
        assert client.get("/recommend/u4").json()["fallback"] is None
        client.delete("/users/u4")
        assert client.get("/recommend/u4").json()["fallback"] == "popular"
