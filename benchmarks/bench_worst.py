# SPDX-License-Identifier: Apache-2.0
"""Single requests beside the longest that a client may send: how much later they are answered.

    python benchmarks/bench_worst.py                 # random vectors of 41,000 items
    python benchmarks/bench_worst.py --kind batch    # one kind alone; --rounds 2 for a first look

Requests alone and beside others are measured in turns, on one server without a cache. `--json FILE` keeps the numbers.
"""

import argparse
import dataclasses
import json
import os
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from bench_events import random_model
from http_load import beside, request, serving

from legcf.modelfile.attributes import Attributes, text_column
from legcf.modelfile.served_model import ServedModel

ITEMS, USERS = 41_000, 30_000
RULES: dict[str, Any] = {"k": 500, "explain": 50, "cap": {"shelf": 1, "brand": 3}, "diversity": 0.5}
KINDS = ("cap", "diversity", "explain", "rules", "batch", "lists")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", choices=KINDS, help="what to send beside [all]")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "worst.json")
    options = parser.parse_args()
    report: dict[str, Any] = {"cores": os.cpu_count(), "items": ITEMS}
    with tempfile.TemporaryDirectory(prefix="legcf-worst-") as folder:
        path = random_model(Path(folder) / "model.legcf", USERS, ITEMS)
        with_attributes(path)
        with serving(path, "--cache-mb", "0") as (port, _):
            for kind in options.kind or KINDS:
                found = report[kind] = beside(port, range(USERS), longest(kind), options.rounds)
                alone, other = found["alone"]["p99_ms"], found["beside"]["p99_ms"]
                print(f"{kind}: p99 {alone:.2f} ms alone, {other:.2f} ms beside, {other / alone:.1f}×", flush=True)
    options.json.write_text(json.dumps(report, indent=2) + "\n")


def with_attributes(path: Path) -> None:
    """Put all items on one shelf, and some of each brand: a cap of the shelf looks at every item."""
    rows = np.arange(ITEMS)
    brands = np.random.default_rng(0).integers(0, 1000, ITEMS)
    columns = {
        "shelf": text_column(rows, ["one"] * ITEMS, ITEMS),
        "brand": text_column(rows, [f"brand {brand}" for brand in brands], ITEMS),
    }
    dataclasses.replace(ServedModel.load(path), attributes=Attributes(columns)).save(path)


def longest(kind: str) -> list[bytes]:
    """Requests of one kind, each as long as it may be."""
    rng = np.random.default_rng(1)
    if kind == "batch":
        return [
            request("/recommend", {"requests": [{"user": user, **RULES} for user in some]})
            for some in rng.integers(USERS, size=(10, 100)).tolist()
        ]
    if kind == "lists":  # nearly a megabyte
        lists = rng.integers(ITEMS, size=(4, 5, 3, 10_000)).tolist()
        bodies = [[dict(zip(("items", "allow", "deny"), three, strict=True)) for three in five] for five in lists]
        return [request("/recommend", {"requests": body}) for body in bodies]
    parts = {"cap": {"k": 500, "cap": {"shelf": 1}}, "rules": RULES}
    fields = parts.get(kind) or {"k": 500, kind: RULES[kind]}
    query = urlencode({name: json.dumps(value) for name, value in fields.items()})
    return [request(f"/recommend/{user}?{query}") for user in range(1000)]


if __name__ == "__main__":
    main()
