# SPDX-License-Identifier: Apache-2.0
"""Accuracy against bytes: model files of several sizes, beside full tables, tables in few bits, and full-size models.

    python benchmarks/frontier.py DATA [DATA …] [--protocol legcf] [--seed 11] [--rows legcf full als ease]

Every row is trained and tested once and then kept in benchmarks/results/frontier.json, so that a stopped run goes on
where it was. docs/images/frontier.svg and docs/frontier.md are written from that file.

Rows of `legcf` are whole model files that `legcf train DATA --bytes SIZE` and `legcf export` make. Of the others, the
values of users and items are counted and nothing else: no ids, no header. Few bits are our own rows of few bits
(rotated, a scale per row), product quantisation is faiss's: whoever compresses a full table gains from the same tricks.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from one_file import model_file, write

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "frontier.json"
PAGE = HERE.parent / "docs" / "frontier.md"
FIGURE = HERE.parent / "docs" / "images" / "frontier.svg"
SIZES = ("250kB", "500kB", "1MB", "2MB", "4MB", "8MB")
MOST_ITEMS_OF_EASE = 10_000  # its matrix has items² values
EASE_RIDGES = (30.0, 100.0, 300.0, 1000.0, 3000.0)
Row = dict[str, Any]


def _figures(metrics: dict[str, float]) -> Row:
    return {name: metrics[name] for name in ("recall@20", "ndcg@20")}


def of_tables(data: Path, protocol: str, seed: int, kind: str) -> Iterator[tuple[str, Row]]:
    """A table of users and items in float32, 8 and 4 bits, and by product quantisation."""
    from legcf.data.options import DataOptions
    from legcf.data.source import load
    from legcf.evaluation import evaluate
    from legcf.ranking.ranking import Ranking

    dataset = load(data, DataOptions(protocol=protocol, cold="keep"))
    started = time.perf_counter()
    if kind == "full":
        from legcf.registry import resolve
        from legcf.runs import train

        ranking = train(dataset, resolve("full", seed=seed), quiet=True).ranking
    else:
        from legcf.factorisation.als import AlsSettings, factorise, with_alpha

        rng = np.random.default_rng(seed)
        settings = with_alpha(dataset.train, 64, rng, AlsSettings(), quiet=True)
        users, items = factorise(dataset.train, 128, rng, settings)
        ranking = Ranking(users=users, items=items, histories=dataset.train)
    seconds = time.perf_counter() - started
    for name, bytes_, users, items in _compressed(ranking.users, ranking.items, seed):
        found = evaluate(replace(ranking, users=users, items=items), dataset.test, (20,))
        yield name, {**_figures(found), "bytes": bytes_, "seconds": seconds}


def _compressed(users: Any, items: Any, seed: int) -> Iterator[tuple[str, int, Any, Any]]:
    from legcf.ranking.rows import PackedRows

    table = np.vstack([users, items]).astype(np.float32)
    cut = len(users)
    yield "float32", table.nbytes, users, items
    for bits in (8, 4):
        rows = PackedRows.of(table, bits)
        rounded = rows.vectors(slice(None))
        # Rows are turned, both sides alike: inner products stay.
        yield f"{bits} bit", rows.packed_bytes, rounded[:cut], rounded[cut:]
    import faiss

    width = table.shape[1]
    for values in (2, 4, 8):
        quantiser = faiss.ProductQuantizer(width, width // values, 8)
        quantiser.cp.seed = seed
        quantiser.train(table)
        codes = quantiser.compute_codes(table)
        decoded = quantiser.decode(codes)
        yield f"pq, {values} values a byte", codes.nbytes + 256 * width * 4, decoded[:cut], decoded[cut:]


def of_ease(data: Path, protocol: str) -> Row | None:
    """EASE (Steck, WWW 2019) in float32, λ by validation; None without validation, or where items are too many."""
    from legcf.data.options import DataOptions
    from legcf.data.source import load
    from legcf.evaluation import evaluate
    from legcf.ranking.ranking import Ranking

    dataset = load(data, DataOptions(protocol=protocol, cold="keep"))
    if dataset.num_items > MOST_ITEMS_OF_EASE or not dataset.validation.num_pairs:
        return None
    pairs = dataset.train.to_scipy().astype(np.float32)
    gram = np.asarray((pairs.T @ pairs).todense(), dtype=np.float64)
    best: tuple[float, Ranking] | None = None
    started = time.perf_counter()
    for ridge in EASE_RIDGES:
        inverse = np.linalg.inv(gram + ridge * np.eye(len(gram)))
        weights = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0)
        users = np.asarray(pairs.todense(), dtype=np.float32)
        ranking = Ranking(users=users, items=np.ascontiguousarray(weights.T, dtype=np.float32), histories=dataset.train)
        score = evaluate(ranking, dataset.validation, (20,))["ndcg@20"]
        if best is None or score > best[0]:
            best = score, ranking
    assert best is not None
    found = evaluate(best[1], dataset.test, (20,))
    return {**_figures(found), "bytes": 4 * dataset.num_items**2, "seconds": time.perf_counter() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--protocol", default="legcf")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--rows", nargs="*", default=["legcf", "als", "full", "ease"])
    asked = parser.parse_args()
    known: dict[str, Row] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}

    def keep(data: Path, kind: str, name: str, row: Row | None) -> None:
        key = f"{data.name} {asked.protocol} {asked.seed} {kind} {name}"
        told = {"data": data.name, "protocol": asked.protocol, "seed": asked.seed, "kind": kind, "name": name}
        known[key] = {**told, **(row or {"refused": True})}
        write(RESULTS, json.dumps(known, indent=1))
        print(json.dumps(known[key]), flush=True)

    for data in asked.data:
        here = f"{data.name} {asked.protocol} {asked.seed}"
        for size in asked.sizes if "legcf" in asked.rows else ():
            if f"{here} legcf {size}" not in known:
                keep(data, "legcf", size, model_file(data, asked.protocol, asked.seed, size))
        for kind in ("als", "full"):
            if kind in asked.rows and f"{here} {kind} float32" not in known:
                for name, row in of_tables(data, asked.protocol, asked.seed, kind):
                    keep(data, kind, name, row)
        if "ease" in asked.rows and f"{here} ease float32" not in known:
            keep(data, "ease", "float32", of_ease(data, asked.protocol))
    show([row for row in known.values() if "refused" not in row])


LABELS: dict[str, Callable[[str], str]] = {
    "legcf": lambda name: f"`legcf train --bytes {name}`, whole file",
    "als": lambda name: f"ALS of 128, users and items, {name}",
    "full": lambda name: f"full table of 64 on LightGCN, {name}",
    "ease": lambda name: f"EASE, {name}",
}


def show(rows: list[Row]) -> None:
    """The page and the figure."""
    sets = sorted({(row["data"], row["protocol"]) for row in rows})
    lines = [
        "# Accuracy against bytes\n",
        "Written by `python benchmarks/frontier.py`; every row was trained and tested on this machine, one seed.",
        "Of a `legcf` row the whole model file is counted, and it needs nothing else to rank. Of the others the values",
        "of users and items alone are counted. Full tables gain from few bits as well, and have their rows here; what",
        "they cannot drop is the users, who in a `legcf` file are their histories.\n",
        "![Accuracy against bytes](images/frontier.svg)\n",
    ]
    for data, protocol in sets:
        lines += [f"## {data}, protocol `{protocol}`\n", "| | bytes | recall@20 | ndcg@20 |", "|---|---|---|---|"]
        for row in sorted(
            (r for r in rows if (r["data"], r["protocol"]) == (data, protocol)), key=lambda r: r["bytes"]
        ):
            label = LABELS[row["kind"]](row["name"])
            lines.append(f"| {label} | {row['bytes']:,} | {row['recall@20']:.4f} | {row['ndcg@20']:.4f} |")
        lines.append("")
    write(PAGE, "\n".join(lines))
    _draw(rows, sets)


def _draw(rows: list[Row], sets: list[tuple[str, str]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "legcf"
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, len(sets), figsize=(4.2 * len(sets), 3.6), squeeze=False)
    for place, (data, protocol) in zip(places[0], sets, strict=True):
        for kind, mark in zip(LABELS, "osD^", strict=True):
            found = [r for r in rows if (r["data"], r["protocol"], r["kind"]) == (data, protocol, kind)]
            found.sort(key=lambda row: row["bytes"])
            sizes, scores = [row["bytes"] / 1e6 for row in found], [row["ndcg@20"] for row in found]
            if found:
                place.plot(sizes, scores, mark + ("-" if kind == "legcf" else ""), label=kind, markersize=5)
        place.set(xscale="log", title=f"{data}, {protocol}", xlabel="megabytes", ylabel="test NDCG@20")
        place.grid(alpha=0.3)
        place.legend(fontsize=8)
    figure.tight_layout()
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
