# SPDX-License-Identifier: Apache-2.0
"""Change bytes and JSON at random: small changes of right input find more than input that is wrong throughout."""

import copy
from typing import Any

import numpy as np

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 255, 2**31, 2**40, 2**63, 2**64, -(2**63), 10**300, 10**4000),
    *(0.0, -0.0, 0.5, 1e-300, 1e300, float("inf"), float("-inf"), float("nan")),
    *("", "x", "0", "1e400", "nan", "\0", "\ud800", "é☕", "../..", "9" * 5000, "a" * 10_000, "2020-01-01"),
    *([], [[]], [0], [None], ["x"], [0] * 100, {}, {"": None}, {"name": {}}, {"shape": [0]}),
)


def odd(rng: np.random.Generator) -> Any:
    return ODD[rng.integers(len(ODD))]


def changed_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut, flip, overwrite, repeat or leave out."""
    if not content:
        return bytes(rng.integers(0, 256, rng.integers(0, 9), dtype=np.uint8))
    kind, at = rng.integers(6), int(rng.integers(len(content)))
    size = int(min(2 ** rng.integers(0, 7), len(content) - at))
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + bytes([content[at] ^ (1 << int(rng.integers(8)))]) + content[at + 1 :]
    if kind == 2:
        return content[:at] + bytes(rng.integers(0, 256, size, dtype=np.uint8)) + content[at + size :]
    if kind == 3:
        return content[:at] + content[at : at + size] * int(rng.integers(2, 5)) + content[at + size :]
    if kind == 4:
        return content[:at] + content[at + size :]
    return (
        content[:at]
        + (b"\0", b"\xff" * 8, b"\x00" * 16, b"{", b"]", b'"', b"-1", b"1e999")[rng.integers(8)]
        + content[at:]
    )


def changed_json(value: Any, rng: np.random.Generator) -> Any:
    """One value anywhere in it replaced, removed, renamed, wrapped or put elsewhere."""
    value = copy.deepcopy(value)
    holders = [holder for holder in _holders(value) if holder]
    if not holders:
        return odd(rng)
    holder = holders[rng.integers(len(holders))]
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key = keys[rng.integers(len(keys))]
    kind = rng.integers(7)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = [holder[key]]
    elif kind == 2 and isinstance(holder[key], int | float):
        holder[key] = holder[key] + (1, -1, 0.5, 10**9)[rng.integers(4)]
    elif kind == 3 and isinstance(holder, dict):
        holder[f"{key}{('x', '', ' ')[rng.integers(3)]}"] = odd(rng)
    elif kind == 4:
        other = holders[rng.integers(len(holders))]
        holder[key] = copy.deepcopy(other)
    else:
        holder[key] = odd(rng)
    return value


def _holders(value: Any) -> list[Any]:
    found = [value] if isinstance(value, dict | list) else []
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += _holders(inner)
    return found
