# SPDX-License-Identifier: Apache-2.0
"""JSON as the server writes it."""

import json
from typing import Any

import orjson


def encode(content: Any) -> bytes:
    try:
        return orjson.dumps(content)
    except TypeError:  # half of a character, or a very long number: orjson has no form for it, but JSON has
        return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
