# SPDX-License-Identifier: Apache-2.0
"""`legcf train DATA` as it is, against EASE, tuned ALS and item-knn on data that its settings were not made on.

    python benchmarks/unseen.py [--sets movielens-small-ratio …] [--methods default ease …] [--data ../shared/data]

The sets are small ones made of what is at hand: other protocols, some users of larger sets, generated pairs. Rivals
have their settings searched on the same validation pairs (`TRIALS`; the ridges of EASE from 4 on, up or down while that
is better); what is best there is tested, once. Where a protocol has no validation, a third of everyone's training pairs
is held out for the search, as `default` does for itself. Rows are kept in benchmarks/results/unseen.json, so that a
stopped run goes on where it was; the table of docs/results.md is written from there. `before` has the `default` of
commit 3af3e1d, whose rules were mended in view of it.
"""

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from legcf.core.files import write_json
from legcf.core.hill_climb import climb
from legcf.data.catalogue.synthetic import Planted, write_csv
from legcf.data.interactions import Dataset
from legcf.data.source import DataOptions, load_data
from legcf.evaluation.evaluate import evaluate_per_user
from legcf.training.loop import TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train

HERE = Path(__file__).parent
RESULTS, DOCUMENT = HERE / "results" / "unseen.json", HERE.parent / "docs" / "results.md"
METRICS = ("recall@20", "ndcg@20")
SEED = 0
_HELD_OUT = 1 / 3
ComparisonRow = dict[str, Any]


def some_users(folder: str, share: float, protocol: str = "ratio") -> Callable[[Path], Dataset]:
    """The pairs of a seeded share of a folder's users; users and items with fewer than five of them are left out."""

    def made(data: Path) -> Dataset:
        frame = _pairs(data / folder)
        users = frame["user"].unique(maintain_order=True).to_numpy()
        kept = np.random.default_rng(SEED).choice(users, round(share * len(users)), replace=False)
        return load_data(frame.filter(pl.col("user").is_in(kept)), DataOptions(protocol=protocol, k_core=5))

    return made


def _pairs(folder: Path) -> pl.DataFrame:
    lines = [
        [int(number) for number in line.split()]
        for part in ("train.txt", "test.txt")
        for line in (folder / part).read_text().splitlines()
    ]
    users = [line[0] for line in lines for _ in line[1:]]
    return pl.DataFrame({"user": users, "item": [item for line in lines for item in line[1:]]})


def generated(users: int, items: int, pairs: int) -> Callable[[Path], Dataset]:
    def made(_: Path) -> Dataset:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "pairs.csv"
            write_csv(Planted(users, items, pairs), SEED, file, quiet=True)
            return load_data(file)

    return made


SETS: dict[str, Callable[[Path], Dataset]] = {
    "movielens-small-ratio": lambda _: load_data("movielens-small", DataOptions(k_core=3)),
    "movielens-small-temporal": lambda _: load_data("movielens-small", DataOptions(protocol="temporal", k_core=3)),
    "movielens-small-leave-last-out": lambda _: load_data(
        "movielens-small", DataOptions(protocol="leave-last-out", k_core=3)
    ),
    "lastfm-ratio": some_users("lastfm", 1.0),
    "lastfm-lightgcn": lambda data: load_data(data / "lastfm", DataOptions(protocol="lightgcn", cold="keep")),
    "ml-1m-users-20%": some_users("ml-1m", 0.2),
    "gowalla-users-10%": some_users("gowalla", 0.1),
    "yelp2018-users-6%": some_users("yelp2018", 0.06),
    "yelp2018-users-15%": some_users("yelp2018", 0.15),
    "generated": generated(3000, 2000, 60_000),
}

TRIALS: dict[str, list[dict[str, Any]]] = {
    "ease": [{"ridge": 2.0**power} for power in range(-2, 8)],
    "als": [
        {"dim": dim, "als": {"alpha": alpha, "regularisation": ridge}}
        for dim, alpha, ridge in product((64, 128), (2.5, 5.0, 10.0, 20.0), (5.0, 20.0, 80.0))
    ],
    "item-knn": [{"neighbours": count, "user_power": power} for count in (20, 100, 400) for power in (0.0, 1.0)],
    "popularity": [{}],
    "default": [{}],
}
"""What is tried of each method; `default` comes last, to be compared with the others."""


def measured(method: str, dataset: Dataset, others: dict[str, ComparisonRow]) -> ComparisonRow:
    """The best of the trials on validation, tested once; of `default` also how far it is ahead of the others."""
    started, trials = time.process_time(), TRIALS[method]
    best = trials[0]
    if len(trials) > 1:
        rng = np.random.default_rng([SEED, 3])
        judging = dataset if dataset.validation.num_pairs else dataset.holding_out(_HELD_OUT, rng)

        def score(trial: dict[str, Any]) -> float:
            return float(_run(method, trial, judging).metrics["validation"]["ndcg@20"])

        if method == "ease":  # one setting, and each trial takes a minute
            ridges = [trial["ridge"] for trial in trials]
            best = {"ridge": climb(lambda ridge: score({"ridge": ridge}), 4.0, min(ridges), max(ridges))}
        else:
            best = max(trials, key=score)
    model = _run(method, best, dataset)
    return {
        **{f"test {name}": model.metrics["test"][name] for name in METRICS},
        **{f"validation {name}": model.metrics["validation"].get(name) for name in METRICS},
        "settings": best or _told(model.config.to_json()),
        "bytes": model.metrics["storage_bytes"],
        "cpu_seconds": round(time.process_time() - started, 1),
        **({"ahead": _ahead(model, dataset, others)} if method == "default" else {}),
    }


def _ahead(model: Any, dataset: Dataset, others: dict[str, ComparisonRow]) -> dict[str, dict[str, list[float]]]:
    """Of each other method and metric: the mean difference over test users, and its standard error."""
    own, found = _per_user(model, dataset), {}
    for method in (method for method in ("ease", "als", "item-knn") if method in others):
        rival = _per_user(_run(method, others[method]["settings"], dataset), dataset)
        gaps = {name: own[name] - rival[name] for name in METRICS}
        found[method] = {name: [float(gap.mean()), float(gap.std() / len(gap) ** 0.5)] for name, gap in gaps.items()}
    return found


def _per_user(model: Any, dataset: Dataset) -> dict[str, Any]:
    return evaluate_per_user(model.ranking, dataset.test, (20,), metrics=("recall", "ndcg"))[0]


def _run(method: str, trial: dict[str, Any], dataset: Dataset) -> Any:
    name = "legcf" if method == "default" else method
    return train(dataset, resolve(name, seed=SEED, overrides={"method": trial}), TrainingOptions(quiet=True))


def _told(config: dict[str, Any]) -> dict[str, Any]:
    """What `default` has chosen."""
    names = ("name", "initial", "dim", "popularity_power", "als", "c", "t")
    made_of = {name: value for name, value in config["method"].items() if name in names}
    lists = {name: value for name, value in config["ranking"].items() if name.startswith(("list_", "bits"))}
    return {**made_of, "epochs": config["training"]["epochs"], **lists}


def table(known: dict[str, dict[str, ComparisonRow]]) -> str:
    """A line for each set, recall and NDCG of each method, and how far `default` is ahead of the best other."""
    rivals = [method for method in TRIALS if method != "default"]
    ahead = "`default` ahead of the best, ± its standard error"
    lines = [f"| data | users, items, pairs | default | {' | '.join(rivals)} | {ahead} | before |", "|---" * 9 + "|"]
    for name in (name for name in SETS if "default" in known.get(name, {})):
        rows = known[name]
        size = ", ".join(f"{count:,}" for count in rows["data"].values())
        cells = [name, size, *(_pair(rows[method]) for method in ("default", *rivals))]
        cells += [" / ".join(_shares(rows, one) for one in METRICS), _pair(rows["before"]) if "before" in rows else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _pair(row: ComparisonRow) -> str:
    return " / ".join(f"{row[f'test {metric}']:.4f}" for metric in METRICS)


def _shares(rows: dict[str, ComparisonRow], metric: str) -> str:
    """In per cent of the best other method's value."""
    best = max(rows["default"]["ahead"], key=lambda method: float(rows[method][f"test {metric}"]))
    mean, error = (100 * part / rows[best][f"test {metric}"] for part in rows["default"]["ahead"][best][metric])
    return f"{mean:+.1f} ± {error:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--methods", nargs="*", default=list(TRIALS), choices=list(TRIALS))
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    known: dict[str, dict[str, ComparisonRow]] = json.loads(asked.results.read_text()) if asked.results.exists() else {}
    for name in asked.sets:
        missing = [method for method in asked.methods if method not in known.get(name, {})]
        if not missing:
            continue
        dataset = SETS[name](asked.data)
        for method in missing:
            row = measured(method, dataset, known.get(name, {}))
            known = json.loads(asked.results.read_text()) if asked.results.exists() else {}
            size = {"users": dataset.num_users, "items": dataset.num_items, "pairs": dataset.known.num_pairs}
            known.setdefault(name, {"data": size})[method] = row
            write_json(asked.results, known)
            print(name, method, json.dumps(row), flush=True)
    print(table(known))
    if asked.results == RESULTS:
        text = DOCUMENT.read_text()
        start = text.find("| data | users, items, pairs |")
        if start >= 0:
            end = re.search(r"\n\n", text[start:])
            DOCUMENT.write_text(text[:start] + table(known) + text[start + (end.start() if end else len(text)) :])


if __name__ == "__main__":
    main()
