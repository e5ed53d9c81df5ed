# SPDX-License-Identifier: Apache-2.0
"""What makes the closed form gain at c > d? The preset `official` to its end, with one part or several changed.

    python benchmarks/study_official.py DATA [--part NAME …] [--seeds N …] [--batch N] [--rate X] [--folder FOLDER]
    python benchmarks/study_official.py DATA --page

Every run has both stages, each ended by patience. A line for every epoch has validation, the mean weight of S and the
mean lengths of composed rows and of meta-embeddings. A finished run is kept in benchmarks/results/official-DATA.json,
and is not run again; test is measured once, on what the run ends with. With a FOLDER a run that was stopped goes on,
and parts that differ in their update alone share one pretraining, which is the same for all of them. `--page` draws
docs/images/official-DATA.svg; the table is made by paper_tables.py.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from one_file import write
from paper_tables import OFFICIAL, official

from legcf.core.config import merged
from legcf.core.files import digest
from legcf.data.interactions import Dataset
from legcf.data.source import DataOptions, load_data
from legcf.embeddings.legcf import Legcf
from legcf.evaluation.evaluate import evaluate
from legcf.training.loop import Session, TrainingOptions
from legcf.training.registry import METHODS, resolve
from legcf.training.run import build_model
from legcf.training.stage import Stage, TrainingView

HERE = Path(__file__).resolve().parent
HALF, ONCE, FLAT = {"anchor_weight": 0.5}, {"normalise": "once"}, {"tanh": False}
REFIT, PURSUIT = {"update": "pinv-refit"}, {"update": "matching-pursuit"}
TEXT = HALF | ONCE | FLAT | {"codebook": "xavier", "item_bias": False}
PARTS: dict[str, dict[str, Any]] = {
    "as it is (w* = 0.9)": {},
    "w* = 0.5": HALF,
    "without tanh": FLAT,
    "Xavier codebook": {"codebook": "xavier"},
    "without item bias": {"item_bias": False},
    "normalised once": ONCE,
    "update: refitted": REFIT,
    "update: pursuit": PURSUIT,
    "w* = 0.5, normalised once": HALF | ONCE,
    "w* = 0.5, without tanh": HALF | FLAT,
    "all as in the paper's text": TEXT,
    "w* = 0.5, refitted": HALF | REFIT,
    "w* = 0.5, pursuit": HALF | PURSUIT,
    "w* = 0.5, normalised once, refitted": HALF | ONCE | REFIT,
    "w* = 0.5, normalised once, pursuit": HALF | ONCE | PURSUIT,
}
DRAWN = {
    "as it is (w* = 0.9)": "o",
    "w* = 0.5": "s",
    "without tanh": "^",
    "normalised once": "v",
    "update: refitted": "D",
}
VALIDATION_USERS = 10_000  # as the preset `graph`; LastFM has fewer
Run = dict[str, Any]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", help="a folder, a file, or a known name")
    options.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--batch", type=int, help="the release: 410")
    options.add_argument("--rate", type=float, help="the release: 1e-3")
    options.add_argument("--folder", type=Path, help="checkpoints of runs under way, and of pretrainings")
    options.add_argument("--page", action="store_true", help="draw the figure; train nothing")
    given = options.parse_args()
    path = HERE / "results" / f"official-{Path(given.data).name}.json"
    if given.page:
        usual = OFFICIAL[Path(given.data).name]
        found = [run for run in _known(path) if usual.items() <= run.items()]
        draw(found, HERE.parent / "docs" / "images" / f"{path.stem}.svg")
        return
    dataset = load_data(given.data, DataOptions())
    usual = OFFICIAL[dataset.name]
    batch, rate = given.batch or usual["batch"], given.rate or usual["rate"]
    training = {"batch_size": batch, "learning_rate": rate, "validation_users": VALIDATION_USERS}
    for seed in given.seeds:
        for part in given.part:
            facts = {"part": part, "seed": seed, "batch": batch, "rate": rate}
            if not any(facts.items() <= run.items() for run in _known(path)):
                run = facts | trained(dataset, PARTS[part], seed, training, given.folder)
                write(path, json.dumps([*_known(path), run]))
                print(official([run]).splitlines()[-1], flush=True)


def _known(path: Path) -> list[Run]:
    return json.loads(path.read_text()) if path.exists() else []


def trained(dataset: Dataset, part: dict[str, Any], seed: int, training: dict[str, Any], folder: Path | None) -> Run:
    """Every epoch of both stages, and test of what they end with."""
    config = resolve("legcf", None, "official", seed, merged({"method": part}, {"training": training}))
    own, before = _folders(folder, dataset, config.model_dump(mode="json"))
    rng = np.random.default_rng(config.seed)
    stages = [watched(stage, own, before) for stage in METHODS["legcf"].recipe(config.method, config.training)]
    model = build_model(config, dataset, rng, None)
    session = Session(model, dataset, config, stages, rng, TrainingOptions(folder=own, quiet=True))
    session.resume()
    session.run()
    test = evaluate(session.ranking(), dataset.test, [20], metrics=["recall", "ndcg"])
    epochs = [
        {"stage": line["stage"], "ndcg@20": round(line["validation"]["ndcg@20"], 5), "loss": round(line["loss"], 4)}
        | line["sizes"]
        for line in session.lines
        if line["epoch"]
    ]
    return {"test": {name: round(value, 5) for name, value in test.items()}, "epochs": epochs}


def _folders(folder: Path | None, dataset: Dataset, config: Run) -> tuple[Path | None, Path | None]:
    """The run's own folder, begun from a finished pretraining if there is one, and the folder of that."""
    if folder is None:
        return None, None
    shared = config | {"method": {key: value for key, value in config["method"].items() if key != "update"}}
    own, before = (
        folder / f"{name}-{digest([dataset.content_hash, settings])[:12]}"
        for name, settings in (("run", config), ("pretrained", shared))
    )
    if before.exists() and not own.exists():
        shutil.copytree(before, own)
    own.mkdir(parents=True, exist_ok=True)
    return own, before


def watched(stage: Stage[Any], own: Path | None, before: Path | None) -> Stage[Any]:
    """The stage, with the sizes of weights, rows and meta-embeddings in every epoch's line; the second one keeps what
    the first has left for other updates."""
    after_epoch = stage.after_epoch

    def begin(session: TrainingView[Any]) -> None:
        if own is not None and before is not None and stage.name == "alternate" and not before.exists():
            shutil.copytree(own, before)

    def after_and_sizes(session: TrainingView[Any], epoch: int) -> dict[str, Any]:
        return {**after_epoch(session, epoch), "sizes": sizes(session.layer)}

    stage.begin, stage.after_epoch = begin, after_and_sizes  # type: ignore[method-assign]
    return stage


@torch.no_grad()
def sizes(layer: Legcf) -> dict[str, float]:
    found = {
        "weight": layer.assignment.statistics()["weight_mean"],
        "row": float(layer.table().norm(dim=1).mean()),
        "meta": float(layer.meta_rows().norm(dim=1).mean()),
    }
    return {name: round(value, 4) for name, value in found.items()}


def draw(found: list[Run], path: Path) -> None:
    """Validation, mean weight and mean lengths over the epochs of seed 0, from the first update on."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "legcf"
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    shown = {"ndcg@20": "validation NDCG@20", "weight": "mean weight of S", "row": "mean length of a composed row"}
    for run in (run for run in found if run["seed"] == 0 and run["part"] in DRAWN):
        pretrained = sum(epoch["stage"] == "pretrain" for epoch in run["epochs"])
        for one, (name, title) in zip(axes, shown.items(), strict=True):
            values = [epoch[name] for epoch in run["epochs"]]
            one.plot(
                np.arange(len(values)) - pretrained + 1, values, marker=DRAWN[run["part"]], markersize=3.5,
                markevery=12, linewidth=1, label=run["part"],
            )  # fmt: skip
            one.set(title=title, xlabel="epochs after the first update")
    for one in axes:
        one.axvline(0.5, color="#8a8a8a", linewidth=0.8, linestyle=":")
        one.grid(alpha=0.3)
    for one in axes[1:]:
        one.set_yscale("log")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
