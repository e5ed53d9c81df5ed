# SPDX-License-Identifier: Apache-2.0
"""A learning rate for every rival of the study `table2`: a climb over six rates on small data, by validation.

    python benchmarks/search_rates.py DATA [--only NAME …] [--rates X …] [--epochs N]

A climb begins at the rate of the method's preset (the nearest of those given) and goes on to the better neighbour until
both neighbours of the best are worse: it finds the best rate of all where validation has one peak. Every trial has the
loss and the start of that study and seed 0; it ends after N epochs of a stage (12), or earlier by patience. Trials are
kept in benchmarks/results/rates-DATA.json as they come, so a search that was stopped goes on; the best rate of every
method whose climb is over is written into src/legcf/experiments/rates.json. Test is never looked at.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from legcf.data.source import DataOptions, load
from legcf.experiments.cells import Cell, Setting, with_overrides
from legcf.experiments.studies import STUDIES
from legcf.files import write_json
from legcf.registry import resolve
from legcf.runs import train

HERE = Path(__file__).resolve().parent
KEPT = HERE.parent / "src" / "legcf" / "experiments" / "rates.json"
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
EPOCHS = 12
WATCHED = "validation ndcg@20"
Trials = dict[str, dict[str, Any]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", help="a folder, a file, or a known name; small")
    options.add_argument("--only", nargs="+", help="rows of the study; all by default")
    options.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    options.add_argument("--epochs", type=int, default=EPOCHS, help="of a stage, at most")
    given = options.parse_args()
    dataset = load(given.data, DataOptions(protocol="legcf"))
    setting = Setting(dataset.name, dataset.num_users, dataset.num_items, num_pairs=dataset.train.num_pairs)
    path = HERE / "results" / f"rates-{dataset.name}.json"
    trials: Trials = json.loads(path.read_text()) if path.exists() else {}
    for cell in STUDIES["table2"].cells(setting):
        if cell.method == "legcf" or (given.only and cell.name not in given.only):
            continue

        def score(rate: float, cell: Cell = cell) -> float:
            tried = trials.setdefault(cell.name, {})
            if f"{rate:g}" not in tried:
                tried[f"{rate:g}"] = trial(cell, rate, given.epochs, dataset)
                write_json(path, trials)
                print(cell.name, rate, tried[f"{rate:g}"], flush=True)
            return float(tried[f"{rate:g}"][WATCHED])

        keep(cell.name, climbed(sorted(given.rates), rate_of_preset(cell), score))


def climbed(rates: Sequence[float], start: float, score: Callable[[float], float]) -> float:
    """The rate from which no neighbour is better, going uphill from the one that is nearest to `start`."""
    place = min(range(len(rates)), key=lambda place: abs(math.log(rates[place] / start)))
    while True:
        around = [near for near in (place, place - 1, place + 1) if 0 <= near < len(rates)]
        best = max(around, key=lambda near: score(rates[near]))
        if best == place:
            return rates[place]
        place = best


def rate_of_preset(cell: Cell) -> float:
    """For batches as large as the cell's: rates go with the root of the batch."""
    preset = resolve(cell.method, cell.backbone, cell.preset, 0, {}).training
    return preset.learning_rate * (cell.config(0).training.batch_size / preset.batch_size) ** 0.5


def trial(cell: Cell, rate: float, epochs: int, dataset: Any) -> dict[str, float]:
    overrides = with_overrides(cell.overrides, {"training": {"learning_rate": rate, "epochs": epochs}})
    started = time.process_time()
    trained = train(dataset, resolve(cell.method, cell.backbone, cell.preset, 0, overrides), quiet=True)
    best = trained.metrics["best_epoch"]
    return {
        WATCHED: trained.metrics["validation"]["ndcg@20"],
        "epoch": best["epoch"],
        "epochs": epochs,
        "cpu seconds": round(time.process_time() - started, 1),
    }


def keep(name: str, rate: float) -> None:
    kept = json.loads(KEPT.read_text())
    kept["rates"][name] = rate
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
