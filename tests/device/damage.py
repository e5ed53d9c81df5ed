# SPDX-License-Identifier: Apache-2.0
"""Damage model files: cuts, flipped bits, foreign files, and lies under a right checksum. Every reader refuses them."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from legcf.core.errors import UserError
from legcf.modelfile.container import read_container, write_container
from legcf.modelfile.served_model import ServedModel

FOREIGN = (
    b"",
    b"PK\x03\x04 a zip file that is long enough",
    (2**62).to_bytes(8, "little") + b"{}",
    (2).to_bytes(8, "little") + b"{}",
    (2).to_bytes(8, "little") + b"[]",
    (40_000).to_bytes(8, "little") + b"[" * 40_000,
    (17 * 2**20).to_bytes(8, "little") + b" " * 17 * 2**20,
)
LIES: tuple[tuple[str, Any], ...] = (
    ("neighbour_scale", 1.0), ("items", 10**9), ("items", -1), ("items", 2**53), ("users", 2**39), ("users", -3),
    ("history", 10**12), ("history", 1.5),
    ("codebook", {"shape": [2**30, 2**30]}), ("codebook", {"shape": [20, 12], "top": 1e300}), ("codebook", None),
    ("codebook", {"shape": [20]}), ("codebook", {"shape": [0, 12]}), ("codebook", []),
    ("item_rows", {"kind": "full", "table": {"shape": [1, 0]}}), ("item_rows", {"kind": "coded"}), ("item_rows", None),
    ("item_rows", {"kind": "packed", "shape": [2**31, 2**31], "bits": 3, "top": 1.0}),
    ("item_rows", {"kind": "packed", "shape": [130, 12], "bits": 7, "top": 1.0}),
    ("item_rows", {"kind": "packed", "shape": [130, 12], "bits": 3, "top": -1.0}),
    ("item_ids", {"kind": "range", "first": 2**70}), ("item_ids", {"kind": "range", "first": "x"}),
    ("item_ids", {"kind": "text"}), ("user_ids", {"kind": "range", "first": 1e300}),
    ("popularity", {"bits": 0}), ("popularity", {"bits": 64}), ("popularity", None),
    ("fold_in", {"user": {"unobserved": "x"}, "item": {}}), ("fold_in", {"user": {"surprise": 1}, "item": {}}),
    ("fold_in", {"user": {"ridge": -1}, "item": {}}), ("fold_in", None), ("dtype", "float999"), ("dtype", None),
    ("pooling", {"user_power": 9, "item_power": 0}), ("pooling", {"user_power": "x", "item_power": 0}),
    *(
        ("pooling", {"user_power": 0, "item_power": 0, "half_life": half_life})
        for half_life in (-1, 0, 1e13, None, [], float("inf"), float("nan"))
    ),
    *(("dislikes", pairs) for pairs in (None, -1, 1.5, 1, 2**39, 2**53, "3")),
    ("lists", {"entries": 10**9, "bits": 4, "levels": 16, "user_power": 0.5}), ("lists", {"entries": 1}),
    ("lists", {"entries": 0, "bits": 99, "levels": 16, "user_power": 0.5}),
    ("attributes", [{"name": "x", "kind": "colour"}]), ("attributes", [{}]),
    ("attributes", [{"name": "x", "kind": "text", "values": 2**39, "pairs": 2**39}]),
    ("attributes", [{"name": "x", "kind": "number", "levels": 0, "bits": 1}]),
)  # fmt: skip


def damaged_files(golden: Path, folder: Path) -> list[Path]:
    """Write damaged files, of which Python's reader refuses every one, and return them."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for number, content in enumerate(_contents(golden, folder)):
        path = folder / f"{number}.bad"
        path.write_bytes(content)
        written.append(path)
    return written


def _contents(golden: Path, folder: Path) -> Iterator[bytes]:
    yield from FOREIGN
    rng = random.Random(0)
    for name in ("all", "table-3-bits", "lists", "weights", "text-ids"):
        content = (golden / f"{name}.legcf").read_bytes()
        yield from (content[:length] for length in [0, 1, 7, 8, 9, 100, *rng.sample(range(len(content)), 60)])
        for position in [*range(12), *rng.sample(range(len(content)), 300)]:
            flipped = bytearray(content)
            flipped[position] ^= 1 << rng.randrange(8)
            yield bytes(flipped)
        yield content + b"\0"
        yield from (content.replace(b'"version":"2"', b'"version":"%d"' % version, 1) for version in (1, 9))
    for path in sorted(golden.glob("*.legcf")):
        yield from _lies(path, folder / "lie", rng)


def _lies(path: Path, scratch: Path, rng: random.Random) -> Iterator[bytes]:
    """Yield files with a right checksum and content that cannot be, as far as Python's reader refuses them."""
    arrays, metadata = read_container(path)
    config = json.loads(metadata["config"])
    lies = [
        ({**config, key: value}, arrays)
        for key, value in LIES
        if key in config or key not in ("users", "user_ids", "history")
    ]
    lies += [({key: value for key, value in config.items() if key != left_out}, arrays) for left_out in config]
    for name, array in arrays.items():
        if "features." in name:  # for new items and users, of which devices know nothing
            continue
        lies.append((config, {other: values for other, values in arrays.items() if other != name}))
        if array.size:
            lies.append((config, {**arrays, name: array.ravel()[:-1]}))
            lies.append((config, {**arrays, name: np.append(array.ravel(), array.ravel()[:1])}))
            lies.append((config, {**arrays, name: _scrambled(array, rng)}))
            lies.append(
                (config, {**arrays, name: np.frombuffer(b"\xff" * array.nbytes, array.dtype).reshape(array.shape)})
            )
    for lie, parts in lies:
        write_container(scratch, parts, {**metadata, "config": json.dumps(lie)})
        if _is_refused(scratch):
            yield scratch.read_bytes()


def _scrambled(array: np.ndarray[Any, np.dtype[Any]], rng: random.Random) -> np.ndarray[Any, np.dtype[Any]]:
    content = bytearray(array.tobytes())
    for _ in range(1 + len(content) // 20):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return np.frombuffer(bytes(content), array.dtype).reshape(array.shape)


def _is_refused(path: Path) -> bool:
    try:
        ServedModel.load(path)
    except UserError as error:
        return "utf-8" not in str(error)  # a text that is none is shown as it can be: no reader but Python's refuses it
    return False
