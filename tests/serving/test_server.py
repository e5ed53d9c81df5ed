"""The HTTP server in one process: answers, limits, key, reload, counters."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from legcf.serving.artifact import ServingModel
from legcf.serving.build import build
from legcf.serving.server import Settings, create_app

from .conftest import Toy, make_toy


@pytest.fixture(scope="module")
def client(model_file: Path) -> Iterator[TestClient]:
    with TestClient(create_app(Settings(str(model_file), access_log=False)), raise_server_exceptions=False) as client:
        yield client


def test_recommend_known_user(client: TestClient) -> None:
    answer = client.get("/recommend/u4", params={"k": 5, "explain": 2})
    assert answer.status_code == 200
    content = answer.json()
    assert content["user"] == "u4"
    assert len(content["items"]) == 5
    assert {int(item["id"][2:]) % 3 for item in content["items"]} == {1}
    assert [why["item"] for why in content["why"]] == [item["id"] for item in content["items"][:2]]


def test_batch_with_fold_in_and_filters(client: TestClient) -> None:
    requests = [
        {"user": "u0", "k": 3},
        {"items": ["i/1", "i/4"], "k": 4, "deny": ["i/7"], "explain": 1},
        {"user": "u0", "items": ["i/1"], "allow": ["i/2", "i/3"]},
    ]
    answer = client.post("/recommend", json={"requests": requests})
    assert answer.status_code == 200, answer.text
    first, second, third = answer.json()["results"]
    assert len(first["items"]) == 3
    assert second["user"] is None
    assert not {item["id"] for item in second["items"]} & {"i/1", "i/4", "i/7"}
    assert {item["id"] for item in third["items"]} <= {"i/2", "i/3"}


def test_why_tells_what_neighbours_add(near_model: ServingModel, client: TestClient, tmp_path: Path) -> None:
    near_model.save(tmp_path / "near")
    with TestClient(create_app(Settings(str(tmp_path / "near"), access_log=False))) as near:
        content = near.get("/recommend/u4", params={"k": 5, "explain": 5}).json()
        assert near.get("/api/model").json()["neighbours"] is True
    for item, why in zip(content["items"], content["why"], strict=True):
        assert 0 < why["neighbours"] < item["score"]
        assert why["score"] == pytest.approx(item["score"], rel=1e-3)
    assert client.get("/recommend/u4", params={"explain": 1}).json()["why"][0]["neighbours"] == 0
    assert client.get("/api/model").json()["neighbours"] is False


def test_ids_with_slashes_in_paths(client: TestClient) -> None:
    assert client.get("/similar/i/5").json()["to"] == "i/5"
    assert client.get("/similar/i%2F5?k=3").json()["to"] == "i/5"
    assert client.get("/similar-users/u5").json()["items"][0]["id"].startswith("u")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/recommend/stranger", None, 404),
        ("GET", "/similar/nothing", None, 404),
        ("GET", "/recommend/u1?k=0", None, 422),
        ("GET", "/recommend/u1?k=100000", None, 422),
        ("GET", "/recommend/u1?k=x", None, 422),
        ("GET", "/nowhere", None, 404),
        ("DELETE", "/recommend/u1", None, 405),
        ("POST", "/recommend", b"{", 422),
        ("POST", "/recommend", b"\xff\xfe", 400),
        ("POST", "/recommend", b"[" * 50_000, 400),
        ("POST", "/recommend", {"requests": []}, 422),
        ("POST", "/recommend", {"requests": [{"user": "u1"}] * 101}, 422),
        ("POST", "/recommend", {"requests": [{"user": "u1", "k": 501}]}, 422),
        ("POST", "/recommend", {"requests": [{"items": ["nothing"]}]}, 404),
        ("POST", "/recommend", {"requests": [{"user": "stranger"}]}, 404),
        ("POST", "/recommend", {"requests": [{"user": 1e400, "k": 5}]}, 422),
        ("POST", "/recommend", {"requests": [{"user": True}]}, 422),
        ("POST", "/recommend", {"requests": [{"user": "u1", "surprise": 1}]}, 422),
        ("POST", "/recommend", b'{"requests": [{"user": "\\ud800"}]}', 422),
        ("POST", "/recommend", b'{"requests": [{"\\ud800": 1}]}', 422),
        ("POST", "/recommend", b"x" * (2**20 + 1), 413),
    ],
)
def test_bad_requests_get_a_sentence(client: TestClient, method: str, path: str, body: object, status: int) -> None:
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    answer = client.request(method, path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code in ((status, 422) if status == 400 else (status,)), answer.text
    assert isinstance(answer.json()["detail"], str)


def test_body_without_length_is_counted(client: TestClient) -> None:
    answer = client.post("/recommend", content=iter([b"x" * 2**19] * 3), headers={"content-type": "application/json"})
    assert answer.status_code == 413


def test_state(client: TestClient) -> None:
    assert client.get("/health").json()["status"] == "ok"
    client.get("/recommend/u1")
    text = client.get("/metrics").text
    assert 'legcf_requests_total{route="recommend",status="2xx"}' in text
    assert 'legcf_request_seconds_bucket{route="recommend",le="+Inf"}' in text
    assert "legcf_model_bytes" in text


def test_page_uses_nothing_from_outside(client: TestClient) -> None:
    for path in ("/", "/docs", "/static/app.js", "/static/style.css", "/static/map.js", "/static/card.js"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "https://" not in answer.text
        assert "http://" not in answer.text.replace("http://www.w3.org", "")


def test_questions_of_the_page(client: TestClient) -> None:
    assert client.get("/api/model").json()["card"]["name"] == "toy"
    assert client.get("/api/users?q=u5").json()["users"][0] == "u5"
    assert client.get("/api/items?q=title 7").json()["items"][0]["title"].startswith("Title 7")
    assert client.get("/api/history/u5").json()["count"] > 0
    assert client.get("/api/history/stranger").status_code == 404
    points = client.get("/api/map").json()
    assert len(points["x"]) == len(points["titles"]) == 90


def test_key(model_file: Path) -> None:
    with TestClient(create_app(Settings(str(model_file), api_key="secret", access_log=False))) as client:
        assert client.get("/health").status_code == 200
        assert client.get("/").status_code == 200
        for path in ("/recommend/u1", "/metrics", "/api/model", "/similar/i/1"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"X-API-Key": "wrong"}).status_code == 401
            assert client.get(path, headers={"X-API-Key": "secret"}).status_code == 200
            assert client.get(path, headers={"Authorization": "Bearer secret"}).status_code == 200


def test_replaced_file_is_taken_and_a_bad_one_is_not(model: ServingModel, tmp_path: Path) -> None:
    path = tmp_path / "model"
    model.save(path)
    settings = Settings(str(path), reload_seconds=0.05, access_log=False)
    other = build(make_toy(1, text_ids=False), t=2, c=10, quiet=True)
    with TestClient(create_app(settings)) as client:
        bad = tmp_path / "bad"
        bad.write_bytes(path.read_bytes()[:-10])
        os.replace(bad, path)
        _until(lambda: "legcf_model_reload_failures_total 1" in client.get("/metrics").text)
        assert client.get("/recommend/u1").status_code == 200
        other.save(path)
        _until(lambda: client.get("/recommend/101").status_code == 200)
        assert client.get("/recommend/u1").status_code == 404
        assert "legcf_model_reloads_total 1" in client.get("/metrics").text


def test_model_without_users(toy: Toy, tmp_path: Path) -> None:
    built = build(toy, t=3, c=12, keep_users=False, keep_history=False, keep_titles=False, quiet=True)
    built.save(tmp_path / "items")
    with TestClient(create_app(Settings(str(tmp_path / "items"), access_log=False))) as client:
        assert "POST the user's items" in client.get("/recommend/u1").json()["detail"]
        assert client.post("/recommend", json={"requests": [{"items": ["i/1"]}]}).status_code == 200
        assert client.post("/recommend", json={"requests": [{"user": "u1"}]}).status_code == 409
        assert client.get("/similar-users/u1").status_code == 404
        assert client.get("/api/users").json() == {"users": []}


def _until(condition, seconds: float = 20.0) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
