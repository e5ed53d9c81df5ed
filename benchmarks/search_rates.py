# SPDX-License-Identifier: Apache-2.0
"""A learning rate for every rival of the study `table2`, and for LEGCF and a full table on NGCF and LR-GCCF (study
`backbones`), found on validation: six rates on small data, for rivals with and without the L2 of the paper's loop.

    python benchmarks/search_rates.py DATA [--only NAME …] [--epochs N]
    python benchmarks/search_rates.py DATA --users SHARE [--only NAME …] [--epochs N]

The second form goes on from what was found on small data, with a share of the users of larger data: with the same L2,
it lowers the rate step by step while that is better. Larger data has larger batches, and rates go with their root, so
what may be wrong is a rate too high.

Every trial has the loss and the start of that study and seed 0; it ends after N epochs of a stage (12), or earlier by
patience. Trials are kept in benchmarks/results/rates-DATA.json as they come, so a search that was stopped goes on; the
best of every method is written into studies/src/legcf_studies/paper/rates.json. Test is never looked at.
"""

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from legcf.core.config import merged
from legcf.core.errors import UserError
from legcf.core.files import write_json
from legcf.data.interactions import Dataset
from legcf.data.source import DataOptions, load_data
from legcf.training.loop import TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train
from legcf_studies.methods.common import PAPER_TRAINING
from legcf_studies.paper.cells import Cell, StudyContext
from legcf_studies.paper.studies import rate_at, searched

HERE = Path(__file__).resolve().parent
KEPT = HERE.parent / "studies" / "src" / "legcf_studies" / "paper" / "rates.json"
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
FROM_THE_MIDDLE = sorted(RATES, key=lambda rate: abs(math.log(rate / 3e-3)))  # of equals, the first is taken
EPOCHS = 12
WATCHED = "validation ndcg@20"
Trials = dict[str, dict[str, Any]]
Tried = tuple[float, float]
"""A rate and an L2."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", help="a folder, a file, or a known name")
    options.add_argument("--users", type=float, help="share of the users, from whose pairs rates are lowered")
    options.add_argument("--only", nargs="+", help="rows of the study; all by default")
    options.add_argument("--epochs", type=int, default=EPOCHS, help="of a stage, at most")
    given = options.parse_args()
    dataset = load_data(given.data, DataOptions(protocol="legcf"))
    if given.users is not None:
        drawn = np.random.default_rng(0).choice(dataset.num_users, int(given.users * dataset.num_users), replace=False)
        dataset = dataset.of_users(np.sort(drawn))
    setting = StudyContext(dataset.name, dataset.num_users, dataset.num_items, num_pairs=dataset.train.num_pairs)
    path = HERE / "results" / f"rates-{dataset.name}.json"
    trials: Trials = json.loads(path.read_text()) if path.exists() else {}
    for name, cell in searched(setting).items():
        if (given.only and name not in given.only) or (given.users is not None and cell.backbone is not None):
            continue

        def score(tried: Tried, name: str = name, cell: Cell = cell) -> float:
            rate, l2 = tried
            of_method, key = trials.setdefault(name, {}), f"{rate:g}" + (f", l2 {l2:g}" if l2 else "")
            if key not in of_method:
                of_method[key] = trial(cell, rate, l2, given.epochs, dataset)
                write_json(path, trials)
                print(name, key, of_method[key], flush=True)
            return float(of_method[key][WATCHED])

        if given.users is None:
            penalties = (0.0,) if cell.backbone else (0.0, PAPER_TRAINING["l2"])
            keep(dataset.name, dataset, name, max(itertools.product(FROM_THE_MIDDLE, penalties), key=score))
        else:
            best = lowered(found_on_small(name), score)
            keep(f"{dataset.name}, {given.users:g} of the users", dataset, name, best)


def found_on_small(name: str) -> Tried:
    found = next(iter(json.loads(KEPT.read_text())["found"].values()))
    return found["rates"][name], found["l2"].get(name, 0.0)


def lowered(start: Tried, score: Callable[[Tried], float]) -> Tried:
    """The lowest rate, from that of `start` on downwards, that each step down was better for."""
    rate, l2 = start
    for lower in reversed(RATES[: RATES.index(rate)]):
        if score((lower, l2)) <= score((rate, l2)):
            break
        rate = lower
    return rate, l2


def trial(cell: Cell, rate: float, l2: float, epochs: int, dataset: Dataset) -> dict[str, float]:
    """LEGCF has the L2 of its preset; a loss that is no number any more scores nothing."""
    training: dict[str, Any] = {"learning_rate": rate_at(rate, cell.config(0).training.batch_size)}
    training |= {"epochs": epochs} | ({} if cell.method == "legcf" else {"l2": l2})
    overrides = merged(cell.overrides, {"training": training})
    started = time.process_time()
    try:
        metrics = train(
            dataset, resolve(cell.method, cell.backbone, cell.preset, 0, overrides), TrainingOptions(quiet=True)
        ).metrics
    except UserError as diverged:
        print(diverged, flush=True)
        metrics = {"validation": {"ndcg@20": 0.0}, "best_epoch": {"epoch": 0}}
    return {
        WATCHED: metrics["validation"]["ndcg@20"],
        "epoch": metrics["best_epoch"]["epoch"],
        "epochs": epochs,
        "cpu seconds": round(time.process_time() - started, 1),
    }


def keep(data: str, dataset: Dataset, name: str, best: Tried) -> None:
    kept = json.loads(KEPT.read_text())
    found = kept["found"].setdefault(data, {"pairs": dataset.train.num_pairs, "rates": {}, "l2": {}})
    found["rates"][name], l2 = best
    found["l2"].pop(name, None)
    if l2:
        found["l2"][name] = l2
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
