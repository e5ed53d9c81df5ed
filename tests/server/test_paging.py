# SPDX-License-Identifier: Apache-2.0
"""Pages over HTTP: a cursor keeps to the list it began, whatever is reported and replaced meanwhile."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from legcf.modelfile.served_model import ServedModel
from legcf.server.app import create_app
from legcf.server.paging import Cursor
from legcf.server.settings import Settings
from legcf.server.state.event_log import EventLog

from ..served import ITEMS
from .routes.test_ingest import told


def _page(client: TestClient, cursor: str | None = None, **asked: Any) -> tuple[list[str], str | None]:
    answer = client.get("/recommend/u4", params={"k": 5, **asked, **({"cursor": cursor} if cursor else {})})
    assert answer.status_code == 200, answer.text
    content = answer.json()
    return [item["id"] for item in content["items"]], content["next"]


def _all(client: TestClient, **asked: Any) -> list[str]:
    return [item["id"] for item in client.get("/recommend/u4", params={"k": ITEMS, **asked}).json()["items"]]


def test_an_offset_and_a_cursor_go_on_with_the_list(model_file: Path) -> None:
    with TestClient(create_app(Settings(str(model_file), access_log=False))) as client:
        whole = _all(client)
        assert _page(client, offset=5)[0] == whole[5:10]
        listed, cursor = _page(client)
        while cursor:
            more, cursor = _page(client, cursor)
            listed += more
        assert listed == whole
        many = client.post("/recommend", json={"requests": [{"user": "u4", "k": 5, "offset": 5}]}).json()
        assert [item["id"] for item in many["results"][0]["items"]] == whole[5:10]
        cursor = many["results"][0]["next"]
        many = client.post("/recommend", json={"requests": [{"user": "u4", "k": 5, "cursor": cursor}]}).json()
        assert [item["id"] for item in many["results"][0]["items"]] == whole[10:15]


def test_news_do_not_shift_the_next_page(model_file: Path, tmp_path: Path) -> None:
    with told(model_file, tmp_path) as client:
        whole = _all(client)
        first, cursor = _page(client, damping=0.5)
        assert first == whole[:5]
        gone, taken = whole[1], whole[6]
        client.post("/impressions", json={"impressions": [{"user": "u4", "items": first}]})
        client.post("/interactions", json={"events": [{"user": "u4", "item": taken}]})
        client.put(f"/items/{gone}", json={"available": False})
        client.put(f"/items/{whole[8]}", json={"available": False})
        second, third = _page(client, cursor, damping=0.5)
        assert second == [item for item in whole[5:10] if item not in (taken, whole[8])]
        assert _page(client, third, damping=0.5)[0] == whole[10:15]
        assert _page(client, damping=0.5)[0] != first  # a new list knows all of it


def test_a_cursor_outlives_its_model_for_a_while_and_is_refused_afterwards(
    model: ServedModel, listed_model: ServedModel, tmp_path: Path
) -> None:
    path, other = tmp_path / "model", tmp_path / "other"
    model.save(path)
    with TestClient(create_app(Settings(str(path), access_log=False, reload_seconds=0.05))) as client:
        whole, (_, cursor) = _all(client), _page(client)
        tag = client.get("/ready").json()["model"]
        listed_model.save(other)
        os.replace(other, path)
        while client.get("/ready").json()["model"] == tag:
            pass
        assert _page(client, cursor)[0] == whole[5:10]
    with TestClient(create_app(Settings(str(path), access_log=False))) as client:
        answer = client.get("/recommend/u4", params={"cursor": cursor})
        assert answer.status_code == 409
        assert "begin again" in answer.json()["detail"]


@pytest.mark.parametrize(
    "content", ["[]", "{", '["a"]', '["a",1,2,3,4,-5]', '["a",1,2,3,4,5,6]', "[1,1,2,3,4,5]", "[" * 9999]
)
def test_what_is_no_cursor_is_refused(model_file: Path, content: str) -> None:
    cursor = base64.urlsafe_b64encode(content.encode()).decode()[:512]
    with TestClient(create_app(Settings(str(model_file), access_log=False))) as client:
        for text in (cursor, content[:500]):
            answer = client.get("/recommend/u4", params={"cursor": text})
            assert (answer.status_code, "cursor" in answer.json()["detail"]) == (409, True)


def test_far_pages_are_bounded(model_file: Path) -> None:
    with TestClient(create_app(Settings(str(model_file), access_log=False))) as client:
        assert client.get("/recommend/u4?offset=10001").status_code == 422
        assert client.get("/recommend/u4?offset=400&k=200&diversity=0.5").status_code == 409
        tag = client.get("/ready").json()["model"]
        far = Cursor(tag, 2**40).encode()
        assert client.get("/recommend/u4", params={"cursor": far}).status_code == 409


def test_what_was_shown_in_vain_is_damped_or_left_out(model_file: Path, tmp_path: Path) -> None:
    with told(model_file, tmp_path) as client:
        whole = _all(client)
        page = {"user": "u4", "items": whole[:2]}
        for _ in range(3):
            answer = client.post("/impressions", json={"impressions": [page, {"user": "u5", "items": ["no such"]}]})
            assert answer.json()["kept"] == 3
        client.post("/impressions", json={"impressions": [{"user": "u4", "items": [whole[2]], "time": 0}]})
        assert _all(client) == whole
        assert _all(client, max_shown=2.9) == whole[2:]
        assert _all(client, max_shown=4) == whole
        assert _all(client, max_shown=0.9) == whole[2:]  # the third was shown half a century ago
        assert _all(client, max_shown=0.5, half_life=36500) == whole[3:]
        damped = _all(client, damping=0.4)
        assert sorted(damped) == sorted(whole)
        assert damped.index(whole[0]) > 0
        client.post("/interactions", json={"events": [{"user": "u4", "item": whole[0]}]})
        assert whole[0] in _all(client, max_shown=2.9, exclude_seen=False)  # it had an effect
        ask = {"user": "u5", "k": ITEMS, "shown": {whole[5]: 2, "nothing": 1}, "max_shown": 2}
        result = client.post("/recommend", json={"requests": [ask]}).json()["results"][0]
        assert whole[5] not in [item["id"] for item in result["items"]]
        assert result["ignored"] == ["nothing"]
    with told(model_file, tmp_path) as client:  # kept over a restart
        assert whole[1] not in _all(client, max_shown=2.9)


def test_the_last_thousand_impressions_of_a_user_are_kept(model_file: Path, tmp_path: Path) -> None:
    with told(model_file, tmp_path) as client:
        page = {"user": "u4", "items": [f"i/{item % ITEMS}" for item in range(100)]}
        refused = client.post("/impressions", json={"impressions": [page] * 11})
        assert refused.status_code == 422
        assert "at most 1000 items at once" in refused.json()["detail"]
        for count in (10, 1):
            assert client.post("/impressions", json={"impressions": [page] * count}).json()["kept"] == 100 * count
        client.post("/impressions", json={"impressions": [{"user": "u5", "items": ["i/1"]}]})
    log = EventLog(tmp_path)
    assert (len(log.rows_of("impressions", "u4")), len(log.rows_of("impressions", "u5"))) == (1000, 1)
    log.close()


def test_unknown_items_of_a_request_are_ignored_and_listed(model_file: Path) -> None:
    with TestClient(create_app(Settings(str(model_file), access_log=False))) as client:
        asks = [{"items": ["i/1", "nothing", "i/4"], "k": 5}, {"items": ["i/1", "i/4"], "k": 5}, {"items": ["nothing"]}]
        content = client.post("/recommend", json={"requests": asks}).json()
        some, known, none = content["results"]
        assert content["errors"] == [None, None, None]
        assert some["items"] == known["items"]
        assert [one["ignored"] for one in (some, known, none)] == [["nothing"], [], ["nothing"]]
        assert none["fallback"] == "popular"


def test_a_cursor_reads_back() -> None:
    cursor = Cursor("3f9a+1", 20, 7, 8, 9, 10)
    assert Cursor.decode(cursor.encode()) == cursor
    assert json.loads(base64.urlsafe_b64decode(cursor.encode() + "==")) == ["3f9a+1", 20, 7, 8, 9, 10]
