# SPDX-License-Identifier: Apache-2.0
"""A learning rate for every method of the study `rivals`: six rates each on small data, the best on validation kept.

    python benchmarks/search_rates.py DATA [--only NAME …] [--rates X …]

Every trial has the loss and the start of that study, seed 0, and the epochs and patience of the method's preset. Trials
are kept in benchmarks/results/rates-DATA.json as they come, so a search that was stopped goes on; a method whose six
are there has its best rate written into src/legcf/experiments/rates.json. Test is never looked at.
"""

import argparse
import json
import time
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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", help="a folder, a file, or a known name; small")
    options.add_argument("--only", nargs="+", help="rows of the study; all by default")
    options.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    given = options.parse_args()
    dataset = load(given.data, DataOptions(protocol="legcf"))
    setting = Setting(dataset.name, dataset.num_users, dataset.num_items, num_pairs=dataset.train.num_pairs)
    path = HERE / "results" / f"rates-{dataset.name}.json"
    trials: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    for cell in STUDIES["rivals"].cells(setting):
        if cell.method == "legcf" or (given.only and cell.name not in given.only):
            continue
        for rate in given.rates:
            if f"{rate:g}" not in trials.get(cell.name, {}):
                trials.setdefault(cell.name, {})[f"{rate:g}"] = trial(cell, rate, dataset)
                write_json(path, trials)
                print(cell.name, rate, trials[cell.name][f"{rate:g}"], flush=True)
    keep_best(trials, len(given.rates))


def trial(cell: Cell, rate: float, dataset: Any) -> dict[str, float]:
    overrides = with_overrides(cell.overrides, {"training": {"learning_rate": rate}})
    started = time.process_time()
    trained = train(dataset, resolve(cell.method, cell.backbone, cell.preset, 0, overrides), quiet=True)
    best = trained.metrics["best_epoch"]
    return {
        "validation ndcg@20": trained.metrics["validation"]["ndcg@20"],
        "epoch": best["epoch"],
        "cpu seconds": round(time.process_time() - started, 1),
    }


def keep_best(trials: dict[str, dict[str, Any]], wanted: int) -> None:
    kept = json.loads(KEPT.read_text())
    for name, tried in trials.items():
        if len(tried) >= wanted:
            kept["rates"][name] = float(max(tried, key=lambda rate: tried[rate]["validation ndcg@20"]))
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
