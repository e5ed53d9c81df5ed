# SPDX-License-Identifier: Apache-2.0
"""Write JSON."""

import json
from typing import Any

import orjson
from starlette.responses import JSONResponse


def encode(content: Any) -> bytes:
    try:
        return orjson.dumps(content)
    except TypeError:  # half of a character, or a very long number: orjson has no form for it, but JSON has
        return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


class Json(JSONResponse):
    """Send an answer as `encode` writes it."""

    def render(self, content: Any) -> bytes:
        return encode(content)
