# SPDX-License-Identifier: Apache-2.0
"""The time of a request does not depend on how many pairs a model was trained on: 10⁶, 10⁷ and 10⁸ of them, generated.

    python benchmarks/bench_flat.py [--pairs 1e6 1e7 1e8] [--items 20000] [--solve-from 1e6] [--json FILE]

Item lists are solved from all pairs, as training does it, or from those of some users with so many together: lists
come out as long, and solving is not what is measured here. Codes are drawn at random, since their values do not change
the time. Of each file: milliseconds of a request that brings about 50 items, milliseconds per user of a batch.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from legcf.core.config import RankingConfig
from legcf.data.catalogue.synthetic import Planted
from legcf.data.ids import IdMap
from legcf.data.interactions import Interactions
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.tables.embedding_table import CodebookTable
from legcf.ranking.tables.pooling import Pooling
from legcf.scoring.scorer import Request, Scorer

CODES, WIDTH, TERMS, ENTRIES, HISTORY = 1000, 128, 2, 14, 50
REQUESTS, BATCH, ROUNDS = 300, 3000, 5


def pairs_of(shape: Planted) -> Interactions:
    found = list(shape.blocks(np.random.default_rng(0)))
    bounds = [np.diff(bounds) for _, bounds, _ in found]
    items = np.concatenate([items.astype(np.int32) for _, _, items in found])
    return Interactions(np.concatenate([[0], np.cumsum(np.concatenate(bounds))]), items, shape.num_items)


def model_of(train: Interactions, asked: Interactions, solve_from: int | None) -> ServedModel:
    rng = np.random.default_rng(1)
    enough = train if solve_from is None else train.of_users(train.some_users(solve_from, rng))
    fitter = ListFitter(enough)
    lists = fitter.lists(RankingConfig(list_ridge=1.0), ENTRIES * train.num_items, refit=False)
    columns = rng.integers(CODES, size=(train.num_items, TERMS)).astype(np.uint16)
    weights = rng.standard_normal((train.num_items, TERMS)).astype(np.float32)
    codebook = rng.standard_normal((CODES, WIDTH)).astype(np.float32)
    return ServedModel(
        items=IdMap.consecutive(train.num_items, "item"),
        item_rows=CodebookTable(columns, weights, codebook),
        popularity=train.item_degrees,
        users=IdMap.consecutive(asked.num_users, "user"),
        history=PackedHistories.of(asked),
        pooling=Pooling(0.5, 0.5, train.item_degrees),
        lists=lists,
        dtype="int8",
    )


def measured(num_pairs: int, num_items: int, solve_from: int | None) -> dict[str, Any]:
    started = time.perf_counter()
    train = pairs_of(Planted(num_pairs // HISTORY, num_items, num_pairs))
    made = time.perf_counter()
    usual = np.flatnonzero((train.user_degrees >= HISTORY - 10) & (train.user_degrees <= HISTORY + 10))
    asked = train.of_users(np.random.default_rng(2).permutation(usual)[:BATCH])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.legcf"
        model_of(train, asked, solve_from).save(path)
        solved = time.perf_counter()
        size = path.stat().st_size
        scorer = Scorer.load(path).prepare()
    requests = [Request(items=asked.of(user).tolist()) for user in range(REQUESTS)]
    for request in requests[:20]:
        scorer.recommend(request)
    scorer.recommend_all(20)
    single, batch = [], []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for request in requests:
            scorer.recommend(request)
        single.append(1000 * (time.process_time() - begun) / len(requests))
        begun = time.process_time()
        scorer.recommend_all(20)
        batch.append(1000 * (time.process_time() - begun) / asked.num_users)
    return {
        "pairs": train.num_pairs,
        "users": train.num_users,
        "items": num_items,
        "bytes": size,
        "request_ms": min(single),
        "batch_ms": min(batch),
        "generate_seconds": made - started,
        "lists_seconds": solved - made,
        "lists_from": train.num_pairs if solve_from is None else min(solve_from, train.num_pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=float, nargs="*", default=[1e6, 1e7, 1e8])
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--solve-from", type=float, help="lists are solved from about so many pairs, at most [all]")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for pairs in options.pairs:
        rows.append(measured(int(pairs), options.items, options.solve_from and int(options.solve_from)))
        row = rows[-1]
        first = rows[0]
        print(
            f"{row['pairs']:>11,} pairs: a request {row['request_ms']:.3f} ms of CPU"
            f" ({row['request_ms'] / first['request_ms']:.2f} times the first), in a batch {row['batch_ms']:.3f} ms"
            f" ({row['batch_ms'] / first['batch_ms']:.2f}); lists solved in {row['lists_seconds']:.0f} s",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
