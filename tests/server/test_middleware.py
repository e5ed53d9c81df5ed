# SPDX-License-Identifier: Apache-2.0
"""Test what every request passes: names for counting, openness, and JSON whatever ids hold."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from legcf.server.encoding import Json, encode
from legcf.server.middleware import Gate
from legcf.server.routes.ingest import IngestApi
from legcf.server.routes.operations import Operation, RouteTable, routes
from legcf.server.routes.pages import page_operations
from legcf.server.routes.query import QueryApi
from legcf.server.settings import Settings
from legcf.server.telemetry import Telemetry

_NO_SERVICES: Any = None  # what is declared needs none of what answers


@pytest.fixture(scope="module")
def table() -> RouteTable:
    operations = [*QueryApi(_NO_SERVICES).operations(), *IngestApi(_NO_SERVICES).operations()]
    return RouteTable([*operations, *page_operations(_NO_SERVICES, b"")])


@pytest.mark.parametrize(
    ("method", "path", "name", "is_open"),
    [
        ("GET", "/recommend/a/b", "recommend", False),
        ("HEAD", "/recommend/a/b", "recommend", False),
        ("GET", "/recommend/", "recommend", False),
        ("GET", "/recommend", "recommend", False),
        ("PUT", "/recommend", "recommend", False),
        ("POST", "/recommend", "recommend_many", False),
        ("GET", "/similar", "similar", False),
        ("GET", "/similar/..", "similar", False),
        ("GET", "/similar-users/u", "similar_users", False),
        ("PUT", "/items/i", "items", False),
        ("DELETE", "/items", "items", False),
        ("POST", "/interactions", "interactions", False),
        ("GET", "/metrics", "metrics", False),
        ("GET", "/api/items", "api", False),
        ("GET", "/api/nowhere", "api", False),
        ("GET", "/ready", "ready", True),
        ("HEAD", "/ready", "ready", True),
        ("GET", "/", "page", True),
        ("GET", "/openapi.json", "page", True),
        ("GET", "/static/app.js", "page", True),
        ("GET", "/static", "other", False),
        ("GET", "/ready/", "other", False),
        ("GET", "/recommendations", "other", False),
        ("GET", "//", "other", False),
        ("GET", "", "other", False),
    ],
)
def test_few_names_whatever_people_ask_for_and_a_key_for_most(
    table: RouteTable, method: str, path: str, name: str, is_open: bool
) -> None:
    assert (table.name(method, path), table.is_open(method, path)) == (name, is_open)


def test_an_operation_says_itself_whether_it_needs_a_key(tmp_path: Path) -> None:
    async def answer(request: Request) -> Response:
        return Json({"version": 1})

    operations = [
        Operation("GET", "/version", "Which version.", answer, open=True, name="version"),
        Operation("GET", "/secrets", "Which secrets.", answer, name="secrets"),
    ]
    telemetry = Telemetry()
    settings = Settings(str(tmp_path), api_key="secret", access_log=False)
    gate = Middleware(Gate, settings=settings, telemetry=telemetry, table=RouteTable(operations))
    client = TestClient(Starlette(routes=routes(operations), middleware=[gate]))
    assert client.get("/version").status_code == 200
    assert client.get("/secrets").status_code == 401
    assert client.get("/secrets", headers={"X-API-Key": "secret"}).status_code == 200
    assert 'legcf_requests_total{route="version",status="2xx"} 1.0' in telemetry.text().decode()


def test_half_a_character_can_be_sent() -> None:
    for content in ({"id": "\ud800"}, {"id": "é", "n": [1, 2.5, None, 2**64 - 1]}):
        assert json.loads(encode(content)) == content
