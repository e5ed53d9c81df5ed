# SPDX-License-Identifier: Apache-2.0
"""What every request passes: names for counting, and JSON whatever ids hold."""

import json

import pytest

from legcf.server.encoding import encode
from legcf.server.middleware import route_of


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("GET", "/recommend/a/b", "recommend"),
        ("GET", "/recommend", "recommend"),
        ("POST", "/recommend", "recommend_many"),
        ("GET", "/similar", "similar"),
        ("GET", "/similar/..", "similar"),
        ("GET", "/similar-users/u", "similar_users"),
        ("GET", "/api/items", "api"),
        ("GET", "/ready", "ready"),
        ("GET", "/", "page"),
        ("GET", "/static/app.js", "page"),
        ("GET", "/recommendations", "other"),
    ],
)
def test_few_names_whatever_people_ask_for(method: str, path: str, route: str) -> None:
    assert route_of(path, method) == route


def test_half_a_character_can_be_sent() -> None:
    for content in ({"id": "\ud800"}, {"id": "é", "n": [1, 2.5, None, 2**64 - 1]}):
        assert json.loads(encode(content)) == content
