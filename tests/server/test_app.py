# SPDX-License-Identifier: Apache-2.0
"""The HTTP server in one process: answers, limits, key, reload, counters."""

import hashlib
import http.client
import json
import os
import socket
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from legcf.export.build import build
from legcf.export.options import ExportOptions
from legcf.features.encoder import FeatureEncoder
from legcf.modelfile.served_model import ServedModel
from legcf.server import app
from legcf.server.app import Settings, create_app

from ..served import ODD, Toy, make_toy

_HEAD = b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


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


@pytest.mark.parametrize(
    "query", ["k=3", "k=2&k=4", "explain=2", "exclude_seen=false&diversity=0.5", "k=0", "k=x", "z=1"]
)
@pytest.mark.parametrize("user", ["u1", "nobody"])
def test_the_shortcut_and_the_usual_way_agree(client: TestClient, user: str, query: str) -> None:
    short, usual = client.get(f"/recommend/{user}?{query}"), client.get(f"/recommend?user={user}&{query}")
    assert (short.status_code, short.content) == (usual.status_code, usual.content)
    differing = {"x-request-id"}
    assert {k: v for k, v in short.headers.items() if k not in differing} == {
        k: v for k, v in usual.headers.items() if k not in differing
    }


def test_strangers_start_from_their_features(model: ServedModel, encoder: FeatureEncoder, tmp_path: Path) -> None:
    replace(model, user_encoder=encoder).save(tmp_path / "model")
    asked = {"features": {"kind": "group 2"}, "k": 4, "explain": 2}
    with TestClient(create_app(Settings(str(tmp_path / "model"), access_log=False))) as client:
        for user in ({}, {"user": "nobody"}):
            (found,) = client.post("/recommend", json={"requests": [{**user, **asked}]}).json()["results"]
            assert {int(item["id"][2:]) % 3 for item in found["items"]} == {2}
            assert found["fallback"] is None
            assert len(found["why"]) == 2
        wrong = client.post("/recommend", json={"requests": [{"features": {"age": 3}}]})
        assert "the model knows kind" in wrong.text
        long = client.post("/recommend", json={"requests": [{"features": {"kind": "0" * 513}}]})  # and no number 0
        assert long.status_code == 422
        assert "at most 512 characters" in long.text


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


def test_a_failure_in_a_batch_is_its_own(client: TestClient) -> None:
    requests = [{"user": "u0", "k": 2}, {"user": "stranger"}, {"cursor": "none"}, {"items": ["i/1"], "k": 1}]
    answer = client.post("/recommend", json={"requests": requests})
    assert answer.status_code == 200
    content = answer.json()
    assert [result is None for result in content["results"]] == [False, True, True, False]
    assert [error is None for error in content["errors"]] == [True, False, False, True]
    assert content["errors"][1] == {"status": 404, "detail": "There is no user 'stranger' in this model."}
    assert "cursor" in content["errors"][2]["detail"]
    assert content["results"][0]["user"] == "u0"


def test_long_batches_go_the_slow_way_to_the_same_answers(client: TestClient) -> None:
    requests = [{"user": f"u{user}", "k": 50, "explain": 10} for user in range(20)]
    many = client.post("/recommend", json={"requests": requests}).json()
    for place in (0, 19):
        alone = client.post("/recommend", json={"requests": requests[place : place + 1]}).json()
        assert alone["results"][0] == many["results"][place]
    assert many["errors"] == [None] * 20


@pytest.mark.parametrize("ready", [False, True])
def test_a_long_body_is_read_by_the_helper_to_the_same_answers(model_file: Path, ready: bool) -> None:
    deny = [f"i/{item}" for item in range(0, 90, 2)]
    asks = [{"user": f"u{user}", "k": 3, "deny": deny} for user in range(4)] + [{"user": "stranger é"}]
    long = [{**ask, "deny": [*deny, *["unknown"] * 2000]} for ask in asks[:4]] + asks[4:]
    with TestClient(create_app(Settings(str(model_file), access_log=False))) as client:
        if ready:
            assert client.get("/api/map").status_code == 200
        expected, found = (client.post("/recommend", json={"requests": some}).json() for some in (asks, long))
        for one in found["results"][:4]:
            one["ignored"] = []
        assert found == expected
        wrong = client.post("/recommend", json={"requests": [*long, {"k": 0}]})
        assert wrong.status_code == 422
        assert (
            wrong.json()["detail"] == client.post("/recommend", json={"requests": [*asks, {"k": 0}]}).json()["detail"]
        )
        for body in (b"[" * 40_000, b'{"requests": "\xff' + b"a" * 40_000, b'"' + b"a" * 40_000):
            headers = {"Content-Type": "application/json"}
            assert client.post("/recommend", content=body, headers=headers).status_code == 422


def test_unknown_ids_in_filters_are_ignored_and_told(client: TestClient) -> None:
    request = {"user": "u0", "allow": ["i/2", "new", "i/3"], "deny": ["i/3", "gone"], "exclude_seen": False}
    result = client.post("/recommend", json={"requests": [request]}).json()["results"][0]
    assert [item["id"] for item in result["items"]] == ["i/2"]
    assert result["ignored"] == ["new", "gone"]
    nothing = client.post("/recommend", json={"requests": [{"user": "u0", "allow": ["new"]}]}).json()["results"][0]
    assert nothing["items"] == []
    assert client.get("/recommend/u0").json()["ignored"] == []


def test_why_tells_what_lists_add(listed_model: ServedModel, client: TestClient, tmp_path: Path) -> None:
    listed_model.save(tmp_path / "listed")
    with TestClient(create_app(Settings(str(tmp_path / "listed"), access_log=False))) as listed:
        content = listed.get("/recommend/u4", params={"k": 5, "explain": 5}).json()
    assert content["why"][0]["text"].startswith(("Because you have Title", "Popular with people who have Title"))
    for item, why in zip(content["items"], content["why"], strict=True):
        assert 0 < why["neighbours"] < item["score"]
        assert why["score"] == pytest.approx(item["score"], rel=1e-3)
    assert client.get("/recommend/u4", params={"explain": 1}).json()["why"][0]["neighbours"] == 0


def test_nobody_gets_what_is_popular_and_is_told(client: TestClient) -> None:
    content = client.post("/recommend", json={"requests": [{"k": 3, "explain": 2}, {"user": "u1", "k": 3}]}).json()
    nobody, known = content["results"]
    assert nobody["fallback"] == "popular"
    assert nobody["why"][1]["text"] == "Popular with everybody."
    assert known["fallback"] is None
    assert nobody["model"] == known["model"] == content["model"] == client.get("/health").json()["model"]


def test_unknown_users_get_what_is_popular_if_asked_for(model_file: Path) -> None:
    settings = Settings(str(model_file), access_log=False, popular_for_unknown=True)
    with TestClient(create_app(settings)) as client:
        content = client.get("/recommend/stranger?k=4").json()
        assert content["fallback"] == "popular"
        assert content["user"] == "stranger"
        assert len(content["items"]) == 4
        body = {"requests": [{"user": "stranger", "items": ["i/1"]}]}
        assert client.post("/recommend", json=body).json()["results"][0]["fallback"] is None


def test_answers_are_kept_and_not_mixed_up(client: TestClient) -> None:
    asked = ["/recommend/u3?k=2", "/recommend/u3?k=3", "/recommend/u3?k=2&exclude_seen=false", "/similar/i/3?k=2"]
    first = [client.get(path).json() for path in asked]
    assert first == [client.get(path).json() for path in asked]
    assert len({json.dumps(content) for content in first}) == len(asked)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/recommend/stranger", None, 404),
        ("GET", "/similar/nothing", None, 404),
        ("GET", "/recommend/u1?k=0", None, 422),
        ("GET", "/recommend/u1?k=100000", None, 422),
        ("GET", "/recommend/u1?k=x", None, 422),
        ("GET", "/recommend", None, 422),
        ("GET", "/recommend?user=stranger", None, 404),
        ("GET", "/similar-users/stranger", None, 404),
        ("GET", "/nowhere", None, 404),
        ("DELETE", "/recommend/u1", None, 405),
        ("POST", "/recommend", b"{", 422),
        ("POST", "/recommend", b"\xff\xfe", 400),
        ("POST", "/recommend", b"[" * 50_000, 400),
        ("POST", "/recommend", {"requests": []}, 422),
        ("POST", "/recommend", {"requests": [{"user": "u1"}] * 101}, 422),
        ("POST", "/recommend", {"requests": [{"user": "u1", "k": 501}]}, 422),
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


def test_state(client: TestClient, model_file: Path) -> None:
    tag = hashlib.sha256(model_file.read_bytes()).hexdigest()[:12]
    assert client.get("/live").json() == {"status": "alive"}
    assert client.get("/ready").json() == {"status": "ready", "warning": None, "model": tag}
    health = client.get("/health").json()
    assert (health["name"], health["users"], health["items"], health["status"]) == ("toy", 60, 90, "ready")
    client.get("/recommend/u1")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.text
    assert f"legcf_model_bytes {float(model_file.stat().st_size)}" in text  # to the last digit
    loaded = next(line for line in text.splitlines() if line.startswith("legcf_model_loaded_timestamp_seconds "))
    assert float(loaded.split()[1]) == health["loaded_at"]
    assert f'legcf_model_info{{model="{tag}"}} 1.0' in text
    assert 'legcf_requests_total{route="recommend",status="2xx"}' in text
    assert 'legcf_request_seconds_bucket{le="+Inf",route="recommend"}' in text
    assert "legcf_model_bytes" in text


def test_page_uses_nothing_from_outside(client: TestClient) -> None:
    web = Path(app.__file__).parent / "web"
    for path in ("/", "/docs", *(f"/static/{file.name}" for file in web.iterdir())):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "https://" not in answer.text
        assert "http://" not in answer.text.replace("http://www.w3.org", "")


def test_questions_of_the_page(client: TestClient) -> None:
    assert client.get("/api/model").json()["card"]["name"] == "toy"
    assert client.get("/api/users?q=u5").json()["users"][0] == "u5"
    assert client.get("/api/items?q=title 7").json()["items"][0]["title"].startswith("Title 7")
    assert [item["id"] for item in client.get("/api/items?id=i/3&id=gone&id=i/5").json()["items"]] == ["i/3", "i/5"]
    assert client.get("/api/history?user=u5").json()["count"] > 0
    assert client.get("/api/history?user=stranger").status_code == 404
    points = client.get("/api/map").json()
    assert len(points["x"]) == len(points["titles"]) == 90


@pytest.mark.parametrize(
    ("hosts", "host", "is_taken"),
    [
        ((), "localhost", True),
        ((), "LOCALHOST:8000", True),
        ((), "127.0.0.1:8000", True),
        ((), "[::1]:8000", True),
        ((), "evil.example", False),
        ((), "localhost.evil.example:8000", False),
        ((), "127.0.0.1.evil.example", False),
        (("shop.example",), "shop.example:443", True),
        (("shop.example",), "Shop.Example.", True),
        (("shop.example",), "localhost", True),
        (("shop.example",), "evil.example", False),
        (None, "evil.example", True),
    ],
)
def test_a_server_answers_to_its_names_alone(
    model_file: Path, hosts: tuple[str, ...] | None, host: str, is_taken: bool
) -> None:
    with TestClient(create_app(Settings(str(model_file), access_log=False, hosts=hosts))) as client:
        answer = client.get("/recommend/u1", headers={"Host": host})
        assert answer.status_code == (200 if is_taken else 403)
        assert is_taken or "--allow-host" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("http://localhost:8000", 200),
        ("http://localhost:9000", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("https://shop.example", 200),
        ("https://partner.example", 200),
    ],
)
def test_pages_of_other_sites_cannot_send(model_file: Path, origin: str | None, status: int) -> None:
    settings = Settings(
        str(model_file), access_log=False, hosts=("shop.example",), cors_origins=("https://partner.example",)
    )
    with TestClient(create_app(settings), base_url="http://localhost:8000") as client:
        headers = {} if origin is None else {"Origin": origin}
        answer = client.post("/recommend", json={"requests": [{"user": "u1"}]}, headers=headers)
        assert answer.status_code == status
        assert status == 200 or "--cors-origin" in answer.json()["detail"]
        assert client.delete("/items/i/1", headers=headers).status_code == (404 if status == 200 else 403)
        assert client.get("/recommend/u1", headers=headers).status_code == 200  # whose answer that page cannot read


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        (None, 415),
    ],
)
def test_a_body_says_that_it_is_json(client: TestClient, kind: str | None, status: int) -> None:
    body = b'{"requests": [{"user": "u1"}]}'
    answer = client.post("/recommend", content=body, headers={} if kind is None else {"Content-Type": kind})
    assert answer.status_code == status
    assert status == 200 or "application/json" in answer.json()["detail"]


def test_key(model_file: Path) -> None:
    with TestClient(create_app(Settings(str(model_file), api_key="secret", access_log=False))) as client:
        for path in ("/", "/docs", "/openapi.json", "/live", "/ready", "/health"):
            assert client.get(path).status_code == 200
        for path in ("/recommend/u1", "/metrics", "/api/model", "/similar/i/1"):
            missing = client.get(path)
            assert missing.status_code == 401
            assert "needs a key" in missing.json()["detail"]
            for headers in ({"X-API-Key": "wrong"}, {"Authorization": "Bearer wrong"}):
                wrong = client.get(path, headers=headers)
                assert wrong.status_code == 401
                assert "key is wrong" in wrong.json()["detail"]
            for value in ("secret", "Basic secret", "Bearer", "Bearersecret"):
                assert client.get(path, headers={"Authorization": value}).status_code == 401
            assert client.get(path, headers={"X-API-Key": "secret"}).status_code == 200
            for scheme in ("Bearer", "bearer", "BEARER"):
                assert client.get(path, headers={"Authorization": f"{scheme} secret"}).status_code == 200


def test_head_is_get_without_a_body(client: TestClient) -> None:
    for path in ("/", "/health", "/recommend/u1", "/recommend?user=u1", "/similar/i/1", "/metrics"):
        answer = client.head(path)
        assert answer.status_code == 200
    assert client.head("/recommend/stranger").status_code == 404
    assert set(client.put("/recommend").headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_request_ids(client: TestClient) -> None:
    assert client.get("/health", headers={"X-Request-ID": "abc-123"}).headers["x-request-id"] == "abc-123"
    made = [
        client.get("/health", headers={"X-Request-ID": given}).headers["x-request-id"]
        for given in (b"", b"a b", b"\xc3\xa9")
    ]
    assert len(set(made)) == 3
    assert all(len(request_id) == 16 for request_id in made)


def test_other_pages_may_ask_only_if_told(client: TestClient, model_file: Path) -> None:
    origin = {"Origin": "https://shop.example"}
    asking = {**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key"}
    assert "access-control-allow-origin" not in client.get("/health", headers=origin).headers
    settings = Settings(str(model_file), "secret", access_log=False, cors_origins=("https://shop.example",))
    with TestClient(create_app(settings)) as shop:
        before = shop.options("/recommend", headers=asking)
        assert before.status_code == 200
        assert before.headers["access-control-allow-origin"] == "https://shop.example"
        refused = shop.get("/recommend/u1", headers=origin)
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "https://shop.example"
        other = shop.get("/health", headers={"Origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize("told", [False, True])
def test_log_lines_hold_ids_of_users_only_if_told(
    model_file: Path, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with TestClient(create_app(Settings(str(model_file), log_ids=told))) as client:
        client.get("/recommend/u17", headers={"X-Request-ID": "mine"})
        client.get("/recommend?user=u17")
        client.get("/recommend/stranger-17")
        client.get("/api/history?user=u17")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert [line["route"] for line in requests] == ["recommend", "recommend", "recommend", "api"]
    assert requests[0]["request_id"] == "mine"
    assert ("17" in json.dumps([{**line, "time": 0, "pid": 0, "ms": 0} for line in requests[:1]])) is told
    assert all(("u17" in json.dumps(line) or "stranger" in json.dumps(line)) is told for line in requests)


def test_replaced_file_is_taken_and_a_bad_one_is_told(model: ServedModel, tmp_path: Path) -> None:
    path = tmp_path / "model"
    model.save(path)
    other = build(make_toy(1, text_ids=False), ExportOptions(t=2, c=10))
    with TestClient(create_app(Settings(str(path), reload_seconds=0.05, access_log=False))) as client:
        tag = client.get("/ready").json()["model"]
        bad = tmp_path / "bad"
        bad.write_bytes(path.read_bytes()[:-10])
        os.replace(bad, path)
        _until(lambda: client.get("/ready").json()["status"] == "warning")
        refused = client.get("/ready")
        assert refused.status_code == 200  # it serves, with the model from before
        assert "was refused" in refused.json()["warning"]
        assert str(tmp_path) not in refused.text
        assert client.get("/recommend/u1").json()["model"] == tag
        text = client.get("/metrics").text
        assert "legcf_model_reload_failures_total 1.0" in text
        assert "legcf_model_warning 1.0" in text
        path.unlink()
        _until(lambda: "is gone" in client.get("/ready").json()["warning"])
        assert client.get("/recommend/u1").status_code == 200
        other.save(path)
        _until(lambda: client.get("/recommend/101").status_code == 200)
        assert client.get("/recommend/u1").status_code == 404
        assert client.get("/ready").json()["status"] == "ready"
        assert client.get("/ready").json()["model"] != tag
        assert "legcf_model_reloads_total 1.0" in client.get("/metrics").text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_in_place_of_the_file_stops_nothing(model: ServedModel, tmp_path: Path) -> None:
    path = tmp_path / "model"
    model.save(path)
    with TestClient(create_app(Settings(str(path), reload_seconds=0.05, access_log=False))) as client:
        os.mkfifo(tmp_path / "pipe")
        os.replace(tmp_path / "pipe", path)
        _until(lambda: "is gone" in (client.get("/ready").json()["warning"] or ""))
        model.save(tmp_path / "again")
        os.replace(tmp_path / "again", path)
        _until(lambda: client.get("/ready").json()["warning"] is None)


def test_model_without_users(toy: Toy, tmp_path: Path) -> None:
    built = build(toy, ExportOptions(t=3, c=12, users="none", titles=False))
    built.save(tmp_path / "items")
    with TestClient(create_app(Settings(str(tmp_path / "items"), access_log=False))) as client:
        refused = client.get("/recommend/u1")
        assert refused.status_code == 409
        assert "POST the user's items" in refused.json()["detail"]
        content = client.post("/recommend", json={"requests": [{"items": ["i/1"]}, {"user": "u1"}]}).json()
        assert content["results"][0]["items"]
        assert content["errors"][1]["status"] == 409
        assert client.get("/similar-users/u1").status_code == 409
        assert client.get("/api/users").json() == {"users": []}


def _raw(base: str, target: str) -> dict[str, Any]:
    """As it is written: clients would tidy the path up."""
    connection = http.client.HTTPConnection(base.removeprefix("http://"))
    connection.request("GET", target)
    answer = connection.getresponse()
    content: dict[str, Any] = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, content
    return content


@pytest.mark.parametrize("odd", ODD)
def test_any_id_works_in_every_route(base: str, odd: str) -> None:
    written = urllib.parse.quote(odd, safe="")
    for user in (_raw(base, f"/recommend/{written}?k=2"), _raw(base, f"/recommend?user={written}&k=2")):
        assert user["user"] == odd
        assert len(user["items"]) == 2
    for path, name in (("/similar", "item"), ("/similar-users", "user")):
        assert _raw(base, f"{path}/{written}")["to"] == odd
        assert _raw(base, f"{path}?{name}={written}")["to"] == odd
    assert _raw(base, f"/api/history?user={written}")["count"] > 0
    assert _raw(base, f"/api/items?id={written}")["items"][0]["id"] == odd
    assert odd in _raw(base, f"/api/users?q={written}&limit=100")["users"]
    ask = {"requests": [{"user": odd, "items": [odd], "allow": [odd, "i/1"], "exclude_seen": False}]}
    result = httpx.post(f"{base}/recommend", json=ask).json()["results"][0]
    assert result["user"] == odd
    assert odd in [item["id"] for item in result["items"]]


def test_a_batch_that_nobody_waits_for_is_dropped(base: str) -> None:
    host, port = base.removeprefix("http://").split(":")
    body = json.dumps({"requests": [{"user": f"u{user % 50}", "k": 90, "explain": 50} for user in range(100)]}).encode()
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(_HEAD % len(body) + body)
    dropped = 'legcf_requests_total{route="recommend_many",status="4xx"} 1.0'
    _until(lambda: dropped in httpx.get(f"{base}/metrics").text)


def test_paths_with_slashes_as_they_are(base: str) -> None:
    assert _raw(base, "/similar/..")["to"] == ".."
    assert _raw(base, "/similar/a//b/../c")["to"] == "a//b/../c"
    assert _raw(base, "/similar/i/5")["to"] == "i/5"


def _until(condition, seconds: float = 20.0) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
