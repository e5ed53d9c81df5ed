# SPDX-License-Identifier: Apache-2.0
"""Single requests beside the longest that a client may send: how much later they are answered.

    python benchmarks/bench_worst.py                 # random vectors of 41,000 items
    python benchmarks/bench_worst.py --kind batch    # one kind alone; --rounds 2 for a first look

Requests alone, beside others and while the same others go to a second server are measured in turns, without a cache:
the third says what it costs to share the machine. `--json FILE` keeps the numbers.
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

from legcf.features.coder import FeatureCoder, FeatureColumn
from legcf.features.encoder import FeatureEncoder, FeatureMap
from legcf.modelfile.attributes import Attributes, text_column
from legcf.modelfile.served_model import ServedModel
from legcf.server.paging import Cursor
from legcf.server.state.event_log import EventLog
from legcf.server.state.loaded_model import tag_of
from legcf.server.state.log_entries import Change, Event, Impression

ITEMS, USERS = 41_000, 30_000
RULES: dict[str, Any] = {"k": 500, "explain": 50, "cap": {"shelf": 1, "brand": 3}, "diversity": 0.5}
KINDS = (
    "cap",
    "diversity",
    "explain",
    "rules",
    "batch",
    "lists",
    "cursor",
    "shown",
    "features",
    "events",
    "impressions",
)
LOGGED = 100_000  # events of one user, and changes of availability, that are in the log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", choices=KINDS, help="what to send beside [all]")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "worst.json")
    options = parser.parse_args()
    report: dict[str, Any] = {"cores": os.cpu_count(), "items": ITEMS}
    with tempfile.TemporaryDirectory(prefix="legcf-worst-") as folder:
        path = random_model(Path(folder) / "model.legcf", USERS, ITEMS)
        with_more(path)
        logs = [Path(folder) / name for name in ("events", "elsewhere")]
        for log in logs:
            log_much(log)
        options_of = [("--cache-mb", "0", "--accept-events", str(log)) for log in logs]
        with serving(path, *options_of[0]) as (port, _), serving(path, *options_of[1]) as (elsewhere, _):
            for kind in options.kind or KINDS:
                asks = longest(kind, tag_of(path)[0])
                found = report[kind] = beside(port, range(USERS), asks, options.rounds, elsewhere=elsewhere)
                alone, other, apart = (found[name]["p99_ms"] for name in ("alone", "beside", "elsewhere"))
                print(
                    f"{kind}: p99 {alone:.2f} ms alone, {other:.2f} ms beside ({other / alone:.1f}×), "
                    f"{apart:.2f} ms while a second server has them ({apart / alone:.1f}×)",
                    flush=True,
                )
    options.json.write_text(json.dumps(report, indent=2) + "\n")


def with_more(path: Path) -> None:
    """Put all items on one shelf, and some of each brand: a cap of the shelf looks at every item. Give users words."""
    rows = np.arange(ITEMS)
    brands = np.random.default_rng(0).integers(0, 1000, ITEMS)
    columns = {
        "shelf": text_column(rows, ["one"] * ITEMS, ITEMS),
        "brand": text_column(rows, [f"brand {brand}" for brand in brands], ITEMS),
    }
    model, coder = ServedModel.load(path), FeatureCoder((FeatureColumn("words", "text", width=64),))
    mapping = FeatureMap(np.ones((64, model.item_rows.width), np.float32), np.zeros(model.item_rows.width, np.float32))
    dataclasses.replace(model, attributes=Attributes(columns), user_encoder=FeatureEncoder(coder, mapping)).save(path)


def log_much(folder: Path) -> None:
    """Write a log as a shop has it after a while: events of user 0, what it was shown, items that come and go."""
    items, log = np.random.default_rng(3).integers(0, ITEMS, LOGGED).tolist(), EventLog(folder, create=True)
    log.write([[Event(f"e{n}", "0", str(item), 0.0) for n, item in enumerate(items)]])
    log.write([[Impression("0", str(item), 1e9) for item in items[:1000]]])
    log.write([[Change(str(item), n % 2 == 0, 0.0) for n, item in enumerate(items)]])
    log.close()


def longest(kind: str, tag: str) -> list[bytes]:
    """Requests of one kind, each as long as it may be; `tag` is that of the model."""
    rng = np.random.default_rng(1)
    some_items = rng.integers(ITEMS, size=(10, 1000)).tolist()
    if kind == "cursor":  # one of the beginning, and one of now
        cursors = [Cursor(tag, 10_000 - 500, changes=changes).encode() for changes in (0, LOGGED)]
        return [request(f"/recommend/{user}?k=500&cursor={cursors[user % 2]}") for user in range(1000)]
    if kind == "shown":
        shown = {str(item): 3 for item in range(10_000)}
        asks = {"user": 0, "k": 500, "shown": shown, "damping": 0.5, "half_life": 1}
        return [request("/recommend/0?k=500&damping=0.5"), request("/recommend", {"requests": [asks] * 5})]
    if kind == "features":  # nearly a megabyte, and what is just not long enough to be read elsewhere
        words = [[f"{rng.integers(10**9)}" for _ in range(60)] for _ in range(1000)]
        texts = [{"features": {"words": " ".join(some)[:510]}, "k": 500} for some in words]
        counts = [100, 40]  # asks: of a body that is read elsewhere, and of one that is not
        return [request("/recommend", {"requests": texts[at : at + counts[at % 2]]}) for at in range(0, 900, 9)]
    if kind == "events":
        bodies = [[{"user": "1", "item": item} for item in some] for some in some_items]
        return [request("/interactions", {"events": body}) for body in bodies]
    if kind == "impressions":
        pages = [[{"user": user, "items": some[user : user + 10]} for user in range(100)] for some in some_items]
        return [request("/impressions", {"impressions": body}) for body in pages]
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
