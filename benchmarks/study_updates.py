# SPDX-License-Identifier: Apache-2.0
"""When and how should S change? Ways of alternating, each from the same pretrained model, against leaving S alone.

    python benchmarks/study_updates.py DATA [--seeds N] [--pretrain N] [--epochs N] [--way NAME …] [--set KEY=VALUE …]

Pretrains the preset `graph` once per seed, then goes on with every way in WAYS for as many epochs: the ways share
their start and their time. Prints validation before, after the first epoch, at the best and at the last epoch, and
writes benchmarks/results/updates-DATA.json and docs/images/updates-DATA.svg. Test is never looked at.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from legcf.core.config import RunConfig, merged, parse_assignments
from legcf.data.interactions import Dataset
from legcf.data.source import DataOptions, load_data
from legcf.training.loop import Session, TrainingOptions
from legcf.training.registry import METHODS, resolve
from legcf.training.run import build_model

HERE = Path(__file__).resolve().parent
PURSUIT = {"update": "matching-pursuit"}
WAYS: dict[str, dict[str, Any]] = {
    "S left alone": {"update": "none"},
    "pseudo-inverse, every epoch (paper)": {"update": "pinv"},
    "pursuit, every epoch": PURSUIT,
    "pursuit, every third epoch": {**PURSUIT, "update_every": 3},
    "pursuit, half of the old S stays": {**PURSUIT, "update_damping": 0.5},
    "pursuit, nine tenths of the old S stay": {**PURSUIT, "update_damping": 0.9},
    "weights refitted, support kept": {**PURSUIT, "update_support": "kept"},
    "support kept, nine tenths stay": {**PURSUIT, "update_support": "kept", "update_damping": 0.9},
    "pursuit, gated by validation": {**PURSUIT, "update_gate": True},
    "support kept, nine tenths stay, gated": {
        **PURSUIT, "update_support": "kept", "update_damping": 0.9, "update_gate": True,
    },
}  # fmt: skip
MARKS = "osv^D<>Xph"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", help="a folder, a file, or a known name")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--pretrain", type=int, default=8, help="epochs before S may change")
    options.add_argument("--epochs", type=int, default=8, help="epochs with each way")
    options.add_argument("--set", action="append", default=[], help="a configuration key for all")
    options.add_argument("--way", action="append", choices=list(WAYS), help="only this one; may be given again")
    given = options.parse_args()
    dataset = load_data(given.data, DataOptions())
    ways = {way: WAYS[way] for way in given.way or WAYS}
    curves: dict[str, list[list[float]]] = {way: [] for way in ways}
    for seed in range(given.seeds):
        start = pretrained(dataset, configured(given, seed, given.pretrain, WAYS["S left alone"]))
        for way, settings in ways.items():
            curves[way].append(alternated(dataset, configured(given, seed, given.epochs, settings), start))
            print(f"seed {seed}, {way}: " + " ".join(f"{score:.4f}" for score in curves[way][-1]), flush=True)
    show(dataset.name, curves)
    facts = {"pretrain": given.pretrain, "epochs": given.epochs, "seeds": given.seeds, "set": given.set}
    write(dataset, facts, curves)


def configured(given: argparse.Namespace, seed: int, epochs: int, settings: dict[str, Any]) -> RunConfig:
    kept_going = {"epochs": epochs, "patience": 1000, "continue_from": "last", "keep": "last"}
    overrides = merged({"method": settings, "training": kept_going}, parse_assignments(given.set))
    return resolve("legcf", None, "graph", seed, overrides)


def session_of(dataset: Dataset, config: RunConfig) -> Session:
    rng = np.random.default_rng(config.seed)
    model = build_model(config, dataset, rng, None)
    return Session(
        model,
        dataset,
        config,
        METHODS["legcf"].recipe(config.method, config.training),
        rng,
        TrainingOptions(quiet=True),
    )


def pretrained(dataset: Dataset, config: RunConfig) -> dict[str, Any]:
    session = session_of(dataset, config)
    session.run()
    return {name: value.clone() for name, value in session.model.state_dict().items()}


def alternated(dataset: Dataset, config: RunConfig, start: dict[str, Any]) -> list[float]:
    """Validation NDCG@20 at the start and after every epoch."""
    session = session_of(dataset, config)
    session.model.load_state_dict(start)
    session.model.rebuild()
    session.stages = session.stages[-1:]
    scores = [session.validation_score()]
    session.run()
    return scores + [line["validation"]["ndcg@20"] for line in session.lines if line["epoch"]]


def show(name: str, curves: dict[str, list[list[float]]]) -> None:
    table = Table(title=f"Validation NDCG@20 on {name}, mean over seeds")
    for column in ("way", "before", "first epoch", "best", "last"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for way, runs in curves.items():
        mean = np.mean(runs, axis=0)
        table.add_row(way, *(f"{value:.4f}" for value in (mean[0], mean[1], mean[1:].max(), mean[-1])))
    Console().print(table)


def write(dataset: Dataset, facts: dict[str, Any], curves: dict[str, list[list[float]]]) -> None:
    from matplotlib.figure import Figure

    content = {"dataset": dataset.name, "content_hash": dataset.content_hash, **facts, "ndcg@20": curves}
    (HERE / "results" / f"updates-{dataset.name}.json").write_text(json.dumps(content, indent=1) + "\n")
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for mark, (way, runs) in zip(MARKS, curves.items(), strict=False):
        mean = np.mean(runs, axis=0)
        axes.plot(range(len(mean)), mean, marker=mark, markersize=4, linewidth=1, label=way)
    axes.set_xlabel("epochs after pretraining")
    axes.set_ylabel("validation NDCG@20")
    axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize=7, frameon=False)
    figure.savefig(HERE.parent / "docs" / "images" / f"updates-{dataset.name}.svg")


if __name__ == "__main__":
    main()
