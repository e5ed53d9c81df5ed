"""What `legcf update` keeps of training on everything, and what it costs, all measured in one run.

    python benchmarks/bench_update.py [--data FOLDER] [--updates N] [--settled]

LastFM from ../shared/data. A model is trained on nine tenths of the training pairs and another one on all of them, with
the same validation and test pairs; the first takes in the last tenth, at once and in N updates, and a hundredth. Costs
are seconds of the processor. With --settled the second model is trained with the settings that were chosen for the
first. Writes benchmarks/results/bench_update-NAME.json.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.data.interactions import Dataset, Interactions
from legcf.data.source import DataOptions, load
from legcf.recommender import Recommender
from legcf.runs import settled, train
from legcf.trained_model import TrainedModel
from legcf.updating.update import update

HERE = Path(__file__).resolve().parent
LASTFM = HERE.parents[1] / "shared" / "data" / "lastfm"
METRICS = ("recall@20", "ndcg@20")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=LASTFM, help="a LightGCN folder")
    options.add_argument("--updates", type=int, default=20, help="in how many updates the tenth comes")
    options.add_argument("--settled", action="store_true", help="choose no settings for the training on everything")
    options.add_argument("--seed", type=int, default=5)
    given = options.parse_args()
    whole = load(given.data, DataOptions(protocol="legcf", cold="keep"))
    order = np.random.default_rng(given.seed).permutation(whole.train.num_pairs)
    tenth = order[: len(order) // 10]
    first = replace(whole, train=_without(whole.train, tenth))
    base, seconds = _timed(lambda: Recommender(seed=given.seed).fit(first).trained)
    update(base, _only(whole, tenth[:2]))  # compiled once, before anything is timed
    if given.settled:
        everything, _ = _timed(lambda: train(whole, settled(base), quiet=True))
    else:
        everything, seconds = _timed(lambda: Recommender(seed=given.seed).fit(whole).trained)
    at_once, cost_of_tenth = _timed(lambda: update(base, _only(whole, tenth), first))
    _, cost_of_hundredth = _timed(lambda: update(base, _only(whole, tenth[: len(order) // 100]), first))
    chained, costs = base, []
    for some in np.array_split(tenth, given.updates):
        chained, cost = _timed(lambda chained=chained, some=some: update(chained, _only(whole, some), first))
        costs.append(cost)
    found = {
        "data": given.data.name,
        "pairs": whole.train.num_pairs,
        "trained on all": _test(everything),
        "trained on nine tenths": _test(base),
        "updated at once": _test(at_once),
        f"in {given.updates} updates": _test(chained),
        "at once / all": _ratios(at_once, everything),
        f"in {given.updates} updates / all": _ratios(chained, everything),
        "seconds of a training": seconds,
        "a tenth / a training": cost_of_tenth / seconds,
        "a hundredth / a training": cost_of_hundredth / seconds,
        f"mean of {given.updates} updates / a training": float(np.mean(costs)) / seconds,
        "solved items": at_once.metrics["updated"]["solved_items"],
    }
    text = json.dumps(found, indent=2)
    print(text)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / f"bench_update-{given.data.name}.json").write_text(text + "\n")


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
