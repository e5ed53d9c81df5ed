# SPDX-License-Identifier: Apache-2.0
"""`legcf serve` with a key and a folder for events, as an administrator uses it: every worker forgets, for good."""

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.served import model, model_file, toy  # noqa: F401 - fixtures

from .test_serve import serving


def _ask(base: str, path: str, method: str = "GET", body: Any = None, key: str = "secret") -> tuple[int, Any]:
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{base}{path}", content, headers, method=method)
    try:
        answer = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
    return answer.status, json.loads(answer.read())


def test_a_user_is_forgotten_by_every_worker_and_after_a_restart(model_file: Path, tmp_path: Path) -> None:  # noqa: F811
    options = ("--accept-events", str(tmp_path / "log"), "--api-key", "secret", "--workers", "2", "--no-access-log")
    with serving(model_file, *options) as (base, process):
        events = {"events": [{"user": "u4", "item": "i/2"}]}
        assert _ask(base, "/interactions", "POST", events)[0] == 200
        assert _ask(base, "/users/u4", "DELETE", key="guessed")[0] == 401
        assert [event["item"] for event in _ask(base, "/user-data/u4")[1]["events"]] == ["i/2"]
        assert _ask(base, "/users/u4", "DELETE")[0] == 200
        assert {_ask(base, f"/recommend/u4?k={1 + turn}")[0] for turn in range(20)} == {404}
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
    lines = [json.loads(line) for line in log.splitlines()]
    done = [line["action"] for line in lines if line["event"] == "administration"]
    assert done == ["user_exported", "user_deleted"]
    with serving(model_file, *options) as (base, _):
        assert _ask(base, "/recommend/u4")[0] == 404
        assert _ask(base, "/interactions", "POST", events)[0] == 200
        assert _ask(base, "/recommend/u4")[1]["items"]
