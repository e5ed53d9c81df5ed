# SPDX-License-Identifier: Apache-2.0
"""A learning rate for every rival of the study `table2`, and for LEGCF and a full table on NGCF and LR-GCCF (study
`backbones`): a climb over six rates on small data, by validation.

    python benchmarks/search_rates.py DATA [--only NAME …] [--rates X …] [--epochs N] [--l2]

A climb begins at the rate of the method's preset (the nearest of those given) and goes on to the better neighbour until
both neighbours of the best are worse: it finds the best rate of all where validation has one peak. Every trial has the
loss and the start of that study and seed 0; it ends after N epochs of a stage (12), or earlier by patience. Rates are
those of batches as large as rates.json says; a row with larger ones has more, by their root. Trials are kept in
benchmarks/results/rates-DATA.json as they come, so a search that was stopped goes on; the best rate of every method
whose climb is over is written into src/legcf/experiments/rates.json. With --l2 rivals climb once more with the L2 of
the paper's loop, and keep it if that is better; those that have it are always asked both ways. Test is never looked at.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from legcf.data.source import DataOptions, load
from legcf.embeddings.presets import PAPER_TRAINING
from legcf.experiments.cells import Cell, Setting, with_overrides
from legcf.experiments.studies import rate_at, searched
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
    options.add_argument("--l2", action="store_true", help="try rivals with the L2 of the paper's loop as well")
    given = options.parse_args()
    dataset = load(given.data, DataOptions(protocol="legcf"))
    setting = Setting(dataset.name, dataset.num_users, dataset.num_items, num_pairs=dataset.train.num_pairs)
    path = HERE / "results" / f"rates-{dataset.name}.json"
    trials: Trials = json.loads(path.read_text()) if path.exists() else {}
    for name, cell in searched(setting).items():
        if given.only and name not in given.only:
            continue

        found = {}
        with_l2 = cell.method != "legcf" and (given.l2 or name in json.loads(KEPT.read_text())["l2"])
        for l2 in (0.0, PAPER_TRAINING["l2"]) if with_l2 else (0.0,):

            def score(rate: float, name: str = name, cell: Cell = cell, l2: float = l2) -> float:
                tried, key = trials.setdefault(name, {}), f"{rate:g}" + (f", l2 {l2:g}" if l2 else "")
                if key not in tried:
                    tried[key] = trial(cell, rate, l2, given.epochs, dataset)
                    write_json(path, trials)
                    print(name, key, tried[key], flush=True)
                return float(tried[key][WATCHED])

            best = climbed(sorted(given.rates), rate_of_preset(cell), score)
            found[score(best)] = best, l2
        keep(name, *found[max(found)])


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
    preset = resolve(cell.method, cell.backbone, cell.preset, 0, {}).training
    return preset.learning_rate / rate_at(1.0, preset.batch_size)


def trial(cell: Cell, rate: float, l2: float, epochs: int, dataset: Any) -> dict[str, float]:
    """LEGCF has the L2 of its preset."""
    given: dict[str, Any] = {"learning_rate": rate_at(rate, cell.config(0).training.batch_size), "epochs": epochs}
    overrides = with_overrides(cell.overrides, {"training": given | ({} if cell.method == "legcf" else {"l2": l2})})
    started = time.process_time()
    trained = train(dataset, resolve(cell.method, cell.backbone, cell.preset, 0, overrides), quiet=True)
    best = trained.metrics["best_epoch"]
    return {
        WATCHED: trained.metrics["validation"]["ndcg@20"],
        "epoch": best["epoch"],
        "epochs": epochs,
        "cpu seconds": round(time.process_time() - started, 1),
    }


def keep(name: str, rate: float, l2: float) -> None:
    kept = json.loads(KEPT.read_text())
    kept["rates"][name] = rate
    kept["l2"].pop(name, None)
    if l2:
        kept["l2"][name] = l2
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
