# SPDX-License-Identifier: Apache-2.0
"""Requests of every kind to a server: none is answered with 500 or not at all."""

import http.client
import io
import json
import threading
import time
from contextlib import ExitStack, redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from legcf.modelfile.served_model import EVENT_WEIGHTS, ServedModel
from legcf.server.paging import Cursor
from legcf.server.state.loaded_model import LoadedModel
from tests.fuzz.mutations import changed_bytes, changed_json, odd
from tests.fuzz.targets import GOLDEN, Target

PATHS = ("/recommend", "/recommend/{}", "/similar/{}", "/similar-users/{}", "/items", "/items/{}", "/users",
         "/users/{}", "/user-data/{}", "/interactions", "/impressions", "/api/model", "/api/search", "/api/users",
         "/health", "/ready", "/metrics", "/openapi.json", "/", "/map", "/api/map", "/{}")  # fmt: skip
KEYS = ("k", "q", "filter", "cap", "diversity", "user", "item", "id", "explain", "limit", "offset", "cursor", "damping",
        "max_shown", "half_life", "exclude_seen", "whole")  # fmt: skip
BODIES: tuple[dict[str, Any], ...] = (
    {"requests": [{"items": ["1", "2"], "k": 5, "deny": ["3"], "allow": ["1", "4", 5]}]},
    {"requests": [{"user": "1", "k": 3, "diversity": 0.3, "filter": {"a": ["b"]}, "cap": {"a": 1}}, {"user": 2}]},
    {"requests": [{"user": "1", "k": 2, "offset": 3, "shown": {"2": 3.0}, "damping": 0.5, "max_shown": 2.0}]},
    {"requests": [{"features": {"genre": "a", "year": 1999, "words": ["b", True, None]}, "k": 2, "explain": 1}]},
    {"events": [{"user": "1", "item": "2", "kind": "view", "time": 1.0}, {"user": "1", "item": "3", "weight": -1.0}]},
    {"impressions": [{"user": "1", "items": ["2", 3], "time": 5.0}]},
    {"available": False},
    {"features": {"genre": "a", "year": 1999}, "title": "t"},
)
API_KEY = "fuzz"


class Http(Target):
    """One server in a thread, and one connection that is made anew when the server closes it."""

    def __init__(self, folder: Path) -> None:
        import uvicorn

        from legcf.server.app import Settings, create_app
        from legcf.server.state.event_log import EventLog
        from legcf.server.workers import server_options

        super().__init__(folder)
        model = ServedModel.load(GOLDEN / "codes-lists-features.legcf")
        card = {**model.card, "metrics": {EVENT_WEIGHTS: "view=1,hide=-1"}}
        model = replace(model, user_encoder=model.encoder, card=card)
        model.save(folder / "model.legcf")
        self._tag = LoadedModel.of(folder / "model.legcf").tag
        self._ids = [str(one) for one in model.items.external(range(min(5, len(model.items))))]
        EventLog(folder / "events", create=True).close()
        settings = Settings(
            str(folder / "model.legcf"), access_log=False, events=str(folder / "events"), api_key=API_KEY
        )
        config = uvicorn.Config(create_app(settings), port=0, log_level="critical", **server_options())
        self._server = uvicorn.Server(config)
        self._silence = ExitStack()  # lines of the log: whoever lists, exports or deletes users is written down
        self._silence.enter_context(redirect_stderr(io.StringIO()))
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.02)
        self._port = self._server.servers[0].sockets[0].getsockname()[1]
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)

    def close(self) -> None:
        self._connection.close()
        self._server.should_exit = True
        self._thread.join()
        self._silence.close()

    def attempt(self, rng: np.random.Generator) -> bool:
        method = ("GET", "GET", "POST", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")[rng.integers(8)]
        target = PATHS[rng.integers(len(PATHS))].format(self._text(rng))
        keys = [KEYS[rng.integers(len(KEYS))] for _ in range(rng.integers(0, 3))]
        query = "&".join(f"{key}={self._cursor(rng) if key == 'cursor' else self._text(rng)}" for key in keys)
        body, headers = None, {"Content-Type": "application/json", "X-API-Key": API_KEY}
        if method in ("POST", "PUT", "PATCH"):
            content = BODIES[rng.integers(len(BODIES))]
            content = changed_json(content, rng) if rng.random() < 0.8 else content
            body = json.dumps(content).encode()
            body = changed_bytes(body, rng) if rng.random() < 0.2 else body
        if rng.random() < 0.1:
            headers["Content-Type"] = "text/plain"
        path = f"{target}?{query}" if query else target
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            answer.read()
        except (http.client.HTTPException, ConnectionError):
            self._connection.close()
            self._connection.request("GET", "/health")
            answer = self._connection.getresponse()
            answer.read()
            assert answer.status == 200, "the server is gone"
            return False
        assert answer.status < 500 or answer.status == 503, (
            f"{answer.status} for {method} {path[:200]} {(body or b'')[:200]!r}"
        )
        return answer.status < 400

    def _cursor(self, rng: np.random.Generator) -> str:
        """Return a cursor of this server, as it came or with a number or a byte changed."""
        numbers = rng.integers(0, 30, 5).tolist()
        if rng.random() < 0.2:
            numbers[rng.integers(5)] = odd(rng)
        text = Cursor(self._tag, *numbers).encode() if all(type(one) is int for one in numbers) else "AAAA"
        content = text.encode()
        return quote(changed_bytes(content, rng) if rng.random() < 0.2 else content, safe="")

    def _text(self, rng: np.random.Generator) -> str:
        if rng.random() < 0.5:
            return quote(self._ids[rng.integers(len(self._ids))], safe="")
        value = odd(rng)
        text = value if isinstance(value, str) else json.dumps(value) if rng.random() < 0.7 else repr(value)
        return quote(text.encode("utf-8", "surrogatepass")[:3000], safe="")
