# SPDX-License-Identifier: Apache-2.0
"""What `legcf update` keeps of training on everything, and what it costs.

    python benchmarks/bench_update.py [--data FOLDER] [--draws N] [--updates N] [--bytes SIZE] [--keep FOLDER]
    python benchmarks/bench_update.py --data movielens-small --thresholds 0.05 0.1 0.2
    python benchmarks/bench_update.py --data FOLDER --draws 1 --keep FOLDER --commands update train

LastFM from ../shared/data. For every draw a model is trained with plain settings on nine tenths of the training pairs
and another one on all of them, with the same validation and test pairs; the first takes in the last tenth, at once and
in N updates, of which the last alone is measured, and a hundredth of all pairs. All are compared on the test pairs of
all users. Costs are seconds of the processor, of updates with all that they measure on held-out pairs, and for the
hundredth also without. Trained models are kept in a folder if one is named, and taken from there the next time; --parts
makes some of the rest anew. Writes benchmarks/results/bench_update-NAME.json. With --thresholds, validation alone tells
how large a share of an item must be new for it to be solved again; bench_update-thresholds-NAME.json. With --commands,
`legcf train` and `legcf update` are timed as whole commands, from start to end, on all cores there are;
bench_update-commands-NAME.json.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.data.interactions import Dataset, Interactions
from legcf.data.source import DataOptions, load_data
from legcf.evaluation.evaluate import evaluate
from legcf.recommender import Recommender
from legcf.training.run_folder import TrainedModel, load_model, save_model
from legcf.updating.update import update

HERE = Path(__file__).resolve().parent
LASTFM = HERE.parents[1] / "shared" / "data" / "lastfm"
METRICS = ("recall@20", "ndcg@20")
_READ = DataOptions(protocol="legcf", cold="keep")
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
    options.add_argument(
        "--parts", nargs="+", choices=("once", "row"), default=("once", "row"), help="the others stay as written"
    )
    options.add_argument(
        "--commands", nargs="+", choices=("train", "update"), help="to be timed as a whole; needs --keep and a folder"
    )
    options.add_argument("--thresholds", type=float, nargs="+", help="to be compared on validation pairs")
    given = options.parse_args()
    is_folder = Path(given.data).is_dir()
    whole = load_data(given.data, _READ if is_folder else DataOptions())
    name = Path(given.data).name if given.bytes == "auto" else f"{Path(given.data).name}-{given.bytes}"
    found: dict[str, Any] = {"data": name, "bytes": given.bytes, "pairs": whole.train.num_pairs, "draws": []}
    kind = "commands-" if given.commands else "thresholds-" if given.thresholds else ""
    written = f"bench_update-{kind}{name}.json"
    for seed in range(given.seed, given.seed + given.draws):

        def trained(dataset: Dataset, part: str, seed: int = seed) -> tuple[TrainedModel, float]:
            folder = given.keep / f"{name}-{seed}-{part}" if given.keep else None
            return _trained(dataset, seed, given.bytes, folder)

        if given.commands:
            known = _known(HERE / "results" / written, seed)
            kept = given.keep / f"{name}-{seed}-part"
            found["draws"].append(known | commands(Path(given.data), whole, seed, kept, given.commands))
        elif given.thresholds:
            found["draws"].append(compared(whole, seed, given.thresholds, trained))
        else:
            known = (
                measured(whole, seed, trained) if "once" in given.parts else _known(HERE / "results" / written, seed)
            )
            if "row" in given.parts:
                known |= in_a_row(whole, seed, given.updates, trained)
            found["draws"].append(known)
        text = json.dumps(found, indent=2)
        print(text, flush=True)
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / written).write_text(text + "\n")


def compared(whole: Dataset, seed: int, thresholds: list[float], trained: Training) -> dict[str, Any]:
    """Of the recall and NDCG that training on all has on validation pairs, what an update with each threshold has."""
    tenth, _ = _drawn(whole, seed)
    first = replace(whole, train=_without(whole.train, tenth))
    (base, _), (everything, _) = trained(first, "part"), trained(whole, "all")
    untested = replace(first, test=Interactions.empty(whole.num_users, whole.num_items))
    found: dict[str, Any] = {"seed": seed, "items": whole.num_items}
    for threshold in thresholds:
        updated = update(base, _only(whole, tenth), untested, threshold)
        ratios = {key: updated.metrics["validation"][key] / everything.metrics["validation"][key] for key in METRICS}
        found[str(threshold)] = {**ratios, "solved items": updated.metrics["updated"]["solved_items"]}
    return found


def measured(whole: Dataset, seed: int, trained: Training) -> dict[str, Any]:
    """What the tenth keeps when it comes at once, and what updates cost."""
    tenth, hundredth = _drawn(whole, seed)
    first = replace(whole, train=_without(whole.train, tenth))
    base, _ = trained(first, "part")
    everything, seconds = trained(whole, "all")
    update(base, _only(whole, tenth[:2]))  # compiled once, before anything is timed
    at_once, cost_of_tenth = _timed(lambda: update(base, _only(whole, tenth), first))
    _, cost_of_hundredth = _timed(lambda: update(base, _only(whole, hundredth)))
    _, cost_with_measuring = _timed(lambda: update(base, _only(whole, hundredth), first))
    tested = {key: _test(one, whole) for key, one in (("base", base), ("all", everything), ("at once", at_once))}
    return {
        "seed": seed,
        "methods": [base.config.method.name, everything.config.method.name],
        "trained on nine tenths": tested["base"],
        "trained on all": tested["all"],
        "updated at once": tested["at once"],
        "at once / all": _ratios(tested["at once"], tested["all"]),
        "solved items of the tenth": at_once.metrics["updated"]["solved_items"],
        "weights of the lists": [one.config.ranking.list_weight for one in (base, at_once, everything)],
        "seconds of training on all": seconds,
        "a tenth / a training": cost_of_tenth / seconds,
        "a hundredth / a training": cost_of_hundredth / seconds,
        "a hundredth with measuring / a training": cost_with_measuring / seconds,
    }


def in_a_row(whole: Dataset, seed: int, updates: int, trained: Training) -> dict[str, Any]:
    """The tenth in so many updates, of which the last alone is measured."""
    tenth, _ = _drawn(whole, seed)
    first = replace(whole, train=_without(whole.train, tenth))
    chained, _ = trained(first, "part")
    everything, seconds = trained(whole, "all")
    costs = []
    for left, some in zip(range(updates - 1, -1, -1), np.array_split(tenth, updates), strict=True):
        now = chained
        chained, cost = _timed(lambda: update(now, _only(whole, some), None if left else first))  # noqa: B023
        costs.append(cost)
    tested = _test(chained, whole)
    return {
        f"in {updates} updates / all": _ratios(tested, _test(everything, whole)),
        "validation ndcg after these updates / of the trained model": chained.metrics["updated"]["validation_ratio"],
        f"mean of {updates} updates / a training": float(np.mean(costs)) / seconds,
    }


def _known(path: Path, seed: int) -> dict[str, Any]:
    """What was written of this draw before."""
    draws = json.loads(path.read_text())["draws"] if path.exists() else []
    return next((draw for draw in draws if draw["seed"] == seed), {})


def _drawn(whole: Dataset, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A tenth of the training pairs, and a hundredth of them."""
    order = np.random.default_rng(seed).permutation(whole.train.num_pairs)
    return order[: len(order) // 10], order[: len(order) // 100]


def commands(source: Path, whole: Dataset, seed: int, kept: Path, wanted: list[str]) -> dict[str, Any]:
    """A training on all pairs, and updates of the model of nine tenths with a hundredth, each as people type it."""
    tenth, hundredth = _drawn(whole, seed)
    with tempfile.TemporaryDirectory() as place:
        part, run, new = Path(place) / "part", Path(place) / "run", Path(place) / "new.csv"
        _write_train(replace(whole, train=_without(whole.train, tenth)), part)
        shutil.copy(source / "test.txt", part / "test.txt")
        base = load_model(kept)
        run.mkdir()
        # The folder splits its test pairs in another way than the whole: that is all the same to what an update costs.
        metrics = {**base.metrics, "content_hash": load_data(str(part), _READ).content_hash}
        config = base.config.model_copy(update={"data": _READ.reference(part)})
        save_model(run, replace(base, config=config, metrics=metrics))
        chosen = _only(whole, hundredth).train
        users, items = whole.users.external(chosen.users()), whole.items.external(chosen.items)
        lines = (f"{user},{item}" for user, item in zip(users, items, strict=True))
        new.write_text("user,item\n" + "\n".join(lines) + "\n")
        costs: dict[str, Any] = {"seed": seed, "cores": len(os.sched_getaffinity(0))}
        if "update" in wanted:
            _command("update", str(run), str(new), "--out", f"{place}/first")  # compiled before anything is timed
        for name, told in (("update", []), ("update --no-evaluate", ["--no-evaluate"])) if "update" in wanted else ():
            out = Path(place) / f"new{len(told)}"
            costs[name] = _command("update", str(run), str(new), "--out", str(out), *told)
            measured = json.loads((out / "metrics.json").read_text())["validation"]
            assert bool(measured) == (not told), "held-out pairs were not found"
        if "train" in wanted:
            reading = ("--protocol", "legcf", "--cold", "keep", "--seed", str(seed))
            costs["train"] = _command("train", str(source), *reading, "--out", f"{place}/all")
    return costs


def _write_train(data: Dataset, folder: Path) -> None:
    folder.mkdir()
    users, items = data.users.values.tolist(), data.items.values
    lines = (" ".join(map(str, [name, *items[data.train.of(place)]])) for place, name in enumerate(users))
    (folder / "train.txt").write_text("\n".join(lines) + "\n")


def _command(*arguments: str) -> dict[str, float]:
    """Seconds of the clock and of the processor, of a process and of all that it starts."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "legcf", *arguments], check=True, stdout=subprocess.DEVNULL)
    took, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"clock": took, "processor": after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime}


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


def _test(model: TrainedModel, data: Dataset) -> dict[str, float]:
    found = evaluate(model.ranking, data.test, (20,), metrics=("recall", "ndcg"))
    return {name: found[name] for name in METRICS}


def _ratios(found: dict[str, float], reference: dict[str, float]) -> dict[str, float]:
    return {name: found[name] / reference[name] for name in METRICS}


if __name__ == "__main__":
    main()
