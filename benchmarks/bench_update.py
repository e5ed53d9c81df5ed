# SPDX-License-Identifier: Apache-2.0
"""What `legcf update` keeps of training on everything, and what it costs.

    python benchmarks/bench_update.py [--data FOLDER] [--draws N] [--updates N] [--bytes SIZE] [--keep FOLDER]
    python benchmarks/bench_update.py --data movielens-small --thresholds 0.05 0.1 0.2

LastFM from ../shared/data. For every draw a model is trained with plain settings on nine tenths of the training pairs
and another one on all of them, with the same validation and test pairs; the first takes in the last tenth, at once and
in N updates, and a hundredth of all pairs. Costs are seconds of the processor, of updates with all that they measure on
held-out pairs, and for the hundredth also without. Trained models are kept in a folder if one is named, and taken from
there the next time. Writes benchmarks/results/bench_update-NAME.json. With --thresholds, validation alone tells how
large a share of an item must be new for it to be solved again; bench_update-thresholds-NAME.json.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.data.interactions import Dataset, Interactions
from legcf.data.source import DataOptions, load
from legcf.recommender import Recommender
from legcf.trained_model import TrainedModel, load_model, save_model
from legcf.updating.update import update

HERE = Path(__file__).resolve().parent
LASTFM = HERE.parents[1] / "shared" / "data" / "lastfm"
METRICS = ("recall@20", "ndcg@20")
Training = Callable[[Dataset, str], tuple[TrainedModel, float]]
"""Of which data, under which name: the model and its seconds."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", default=str(LASTFM), help="a LightGCN folder, or the name of known data")
    options.add_argument("--draws", type=int, default=3, help="of the tenth that comes later")
    options.add_argument("--updates", type=int, default=20, help="in how many updates the tenth comes")
    options.add_argument("--bytes", default="auto", help="how large model files may be")
    options.add_argument("--keep", type=Path, help="where trained models are kept")
    options.add_argument("--seed", type=int, default=5, help="of the first draw and its models")
    options.add_argument("--thresholds", type=float, nargs="+", help="to be compared on validation pairs")
    given = options.parse_args()
    is_folder = Path(given.data).is_dir()
    whole = load(given.data, DataOptions(protocol="legcf", cold="keep") if is_folder else DataOptions())
    name = Path(given.data).name if given.bytes == "auto" else f"{Path(given.data).name}-{given.bytes}"
    found: dict[str, Any] = {"data": name, "bytes": given.bytes, "pairs": whole.train.num_pairs, "draws": []}
    written = f"bench_update-thresholds-{name}.json" if given.thresholds else f"bench_update-{name}.json"
    for seed in range(given.seed, given.seed + given.draws):

        def trained(dataset: Dataset, part: str, seed: int = seed) -> tuple[TrainedModel, float]:
            folder = given.keep / f"{name}-{seed}-{part}" if given.keep else None
            return _trained(dataset, seed, given.bytes, folder)

        if given.thresholds:
            found["draws"].append(compared(whole, seed, given.thresholds, trained))
        else:
            found["draws"].append(measured(whole, seed, given.updates, trained))
        text = json.dumps(found, indent=2)
        print(text, flush=True)
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / written).write_text(text + "\n")


def compared(whole: Dataset, seed: int, thresholds: list[float], trained: Training) -> dict[str, Any]:
    """Of the recall and NDCG that training on all has on validation pairs, what an update with each threshold has."""
    order = np.random.default_rng(seed).permutation(whole.train.num_pairs)
    tenth = order[: len(order) // 10]
    first = replace(whole, train=_without(whole.train, tenth))
    (base, _), (everything, _) = trained(first, "part"), trained(whole, "all")
    untested = replace(first, test=Interactions.empty(whole.num_users, whole.num_items))
    found: dict[str, Any] = {"seed": seed, "items": whole.num_items}
    for threshold in thresholds:
        updated = update(base, _only(whole, tenth), untested, threshold)
        ratios = {key: updated.metrics["validation"][key] / everything.metrics["validation"][key] for key in METRICS}
        found[str(threshold)] = {**ratios, "solved items": updated.metrics["updated"]["solved_items"]}
    return found


def measured(whole: Dataset, seed: int, updates: int, trained: Training) -> dict[str, Any]:
    order = np.random.default_rng(seed).permutation(whole.train.num_pairs)
    tenth, hundredth = order[: len(order) // 10], order[: len(order) // 100]
    first = replace(whole, train=_without(whole.train, tenth))
    base, _ = trained(first, "part")
    everything, seconds = trained(whole, "all")
    update(base, _only(whole, tenth[:2]))  # compiled once, before anything is timed
    at_once, cost_of_tenth = _timed(lambda: update(base, _only(whole, tenth), first))
    _, cost_of_hundredth = _timed(lambda: update(base, _only(whole, hundredth)))
    _, cost_with_measuring = _timed(lambda: update(base, _only(whole, hundredth), first))
    chained, costs, lowest = base, [], 1.0
    for some in np.array_split(tenth, updates):
        chained, cost = _timed(lambda chained=chained, some=some: update(chained, _only(whole, some), first))
        costs.append(cost)
        lowest = min(lowest, chained.metrics["updated"]["validation_ratio"])
    return {
        "seed": seed,
        "methods": [base.config.method.name, everything.config.method.name],
        "trained on nine tenths": _test(base),
        "trained on all": _test(everything),
        "updated at once": _test(at_once),
        "at once / all": _ratios(at_once, everything),
        f"in {updates} updates / all": _ratios(chained, everything),
        "lowest validation ndcg of these updates / of the trained model": lowest,
        "solved items of the tenth": at_once.metrics["updated"]["solved_items"],
        "seconds of training on all": seconds,
        "a tenth / a training": cost_of_tenth / seconds,
        "a hundredth / a training": cost_of_hundredth / seconds,
        "a hundredth with measuring / a training": cost_with_measuring / seconds,
        f"mean of {updates} updates / a training": float(np.mean(costs)) / seconds,
    }


def _trained(dataset: Dataset, seed: int, size: str, folder: Path | None) -> tuple[TrainedModel, float]:
    if folder is not None and (folder / "seconds.json").exists():
        return load_model(folder), json.loads((folder / "seconds.json").read_text())
    ranking = {} if size == "auto" else {"bytes": size}
    model, seconds = _timed(lambda: Recommender(seed=seed, ranking=ranking).fit(dataset).trained)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        save_model(folder, model)
        (folder / "seconds.json").write_text(json.dumps(seconds))
    return model, seconds


def _without(pairs: Interactions, places: NDArray[np.int64]) -> Interactions:
    kept = np.ones(pairs.num_pairs, dtype=np.bool_)
    kept[places] = False
    return pairs.subset(kept)


def _only(dataset: Dataset, places: NDArray[np.int64]) -> Dataset:
    """Nothing but some of the training pairs."""
    chosen = np.zeros(dataset.train.num_pairs, dtype=np.bool_)
    chosen[places] = True
    nothing = Interactions.empty(dataset.num_users, dataset.num_items)
    return replace(dataset, train=dataset.train.subset(chosen), validation=nothing, test=nothing)


def _timed(work: Any) -> tuple[TrainedModel, float]:
    started = time.process_time()
    return work(), time.process_time() - started


def _test(model: TrainedModel) -> dict[str, float]:
    return {name: model.metrics["test"][name] for name in METRICS}


def _ratios(model: TrainedModel, reference: TrainedModel) -> dict[str, float]:
    return {name: model.metrics["test"][name] / reference.metrics["test"][name] for name in METRICS}


if __name__ == "__main__":
    main()
