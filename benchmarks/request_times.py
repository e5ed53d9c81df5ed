# SPDX-License-Identifier: Apache-2.0
"""How long a request takes inside the process, for `bench_serving.py`: with rules of every kind, and from tables."""

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from legcf.modelfile.attributes import Attributes, number_column, text_column
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import QuantisedTable
from legcf.scoring.scorer import Request, Scorer

SELECTIVITIES = (1.0, 0.5, 0.1, 0.01, 0.001, 0.0001)
TABLES = ((40_981, 256, 2), (40_981, 128, 4))


def side_by_side(path: Path, other: Path, users: int = 500, rounds: int = 20) -> dict[str, Any]:
    """Milliseconds of CPU of a known user's request from two files, in turns; of each the quickest of all rounds."""
    scorers = {name: Scorer.load(file).prepare() for name, file in (("model", path), ("against", other))}
    count = min(len(scorer.model.users or ()) for scorer in scorers.values())
    asked = np.random.default_rng(0).choice(count, min(users, count), replace=False)
    times: dict[str, list[float]] = {name: [] for name in scorers}
    for _ in range(rounds):
        for name, scorer in scorers.items():
            assert scorer.model.users is not None
            requests = [Request(user=user, k=20) for user in scorer.model.users.external(asked)]
            times[name].append(_seconds(partial(_answer_all, scorer, requests)))
    found: dict[str, Any] = {name: 1e3 * min(values) / len(asked) for name, values in times.items()}
    return {**found, "ratio": found["model"] / found["against"], "users": len(asked)}


def rules(path: Path, rounds: int = 60) -> dict[str, Any]:
    """Requests with and without rules take turns, so that other work on the machine meets all alike."""
    model = ServedModel.load(path)
    rng = np.random.default_rng(0)
    count = len(model.items)
    brands = rng.integers(0, 1000, count)
    columns = {
        "share": number_column(rng.permutation(count) / count),
        "brand": text_column(np.arange(count), [f"brand {brand}" for brand in brands], count),
    }
    scorer = Scorer(dataclasses.replace(model, attributes=Attributes(columns))).prepare()
    asks: dict[str, dict[str, Any]] = {"no rule": {}}
    for share in SELECTIVITIES:
        asks[f"number, {share:.2%} allowed"] = {"filter": {"share": {"max": share - 0.5 / count}}}
    for some in (500, 100, 10, 1):
        wanted = [f"brand {brand}" for brand in range(some)]
        asks[f"{some} of 1,000 values"] = {"filter": {"brand": wanted}}
    asks["a negation and a range"] = {"filter": {"brand": {"not": "brand 3"}, "share": {"min": 0.2, "max": 0.7}}}
    asks["at most 2 of a value"] = {"cap": {"brand": 2}}
    asks["diversity 0.3"] = {"diversity": 0.3}
    items = [rng.integers(0, count, 20) for _ in range(rounds)]
    times: dict[str, list[float]] = {name: [] for name in asks}
    for history in items:
        own = model.items.external(history)
        for name, more in asks.items():
            times[name].append(_seconds(partial(scorer.recommend, Request(items=own, k=20, **more))))
    medians = {name: 1e3 * float(np.median(values)) for name, values in times.items()}
    return {
        "items": count,
        "ms": medians,
        "times_of_no_rule": {name: value / medians["no rule"] for name, value in medians.items()},
    }


def tables(rounds: int = 30) -> list[dict[str, Any]]:
    """Scores of all items from a table of few bits, against looking every value's level up."""
    rng = np.random.default_rng(0)
    found = []
    for count, width, bits in TABLES:
        values = rng.integers(0, 2**bits, (count, width)).astype(np.uint8)
        rows = QuantisedTable(values, (rng.random(count) + 0.1).astype(np.float32), bits)
        query = rng.standard_normal((1, width)).astype(np.float32)
        both = partial(_looked_up, rows, query), partial(rows.scores, query)
        pairs = [[_seconds(work) for work in both] for _ in range(rounds)]
        before, after = (1e3 * np.median(pairs, axis=0)).tolist()
        found.append({"items": count, "width": width, "bits": bits, "looked_up_ms": before, "ms": after})
    return found


def _answer_all(scorer: Scorer, requests: list[Request]) -> None:
    for request in requests:
        scorer.recommend(request)


def _looked_up(rows: QuantisedTable, query: Any) -> list[Any]:
    return [query @ rows.vectors(slice(start, start + 1024)).T for start in range(0, len(rows), 1024)]


def _seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
