# SPDX-License-Identifier: Apache-2.0
"""Search of settings on Optuna: trials share one journal file, so that they resume and run in many processes."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from legcf.core.config import RunConfig, merged, nested
from legcf.core.errors import MissingExtra, UserError
from legcf.core.files import read_json, write_json
from legcf.core.plugins import find_part
from legcf.data.engines import ENGINES
from legcf.data.interactions import Dataset
from legcf.embeddings.search_space import OneOf, Space
from legcf.training.registry import METHODS, resolve
from legcf.training.run import train
from legcf.training.session import TrainingOptions

_OnEpoch = Callable[[dict[str, Any]], None]
_Train = Callable[[RunConfig, _OnEpoch], dict[str, Any]]
_CLOCK_SECONDS = 2.0  # how far apart two readings of one process's start may be
_SMALL_SPACE = 200  # a space of so many points is gone through without repeating any
_UNTOUCHED_TRIALS, _UNTOUCHED_EPOCHS = 3, 1  # no trial is pruned before there is something to compare it with


@dataclass(frozen=True)
class SearchRequest:
    """Hold what is searched, and from where; the same request continues the same search."""

    method: str
    backbone: str | None = None
    preset: str = "default"
    seed: int = 0
    overrides: Mapping[str, Any] = field(default_factory=dict)
    over: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Keys with values of the user's own, instead of the method's space."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Where the data is and how it is read: what the best settings are kept with."""

    def space(self) -> Space:
        """Return what is chosen from, with the method's own default among it."""
        layer, typed = find_part("method", self.method, METHODS).layer, {key: OneOf(v) for key, v in self.over.items()}
        declared: Space = typed or layer.search_space((config := self.config({})).method, config)
        usual = self.usual(declared)
        return {key: part.including(usual[key]) for key, part in declared.items()}

    def usual(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values that these keys have without any search."""
        return {key: _value(self.config({}).to_json(), key) for key in keys}

    def config(self, drawn: Mapping[str, Any]) -> RunConfig:
        overrides = merged(self.overrides, *(nested(key, value) for key, value in drawn.items()))
        return resolve(self.method, self.backbone, self.preset, self.seed, overrides, self.data)

    def mark(self, content_hash: str) -> dict[str, Any]:
        """Return what must stay the same for trials to be comparable."""
        return {
            "config": self.config({}).to_json() | {"data": {}},
            "space": {key: repr(part) for key, part in self.space().items()},
            "content_hash": content_hash,
        }


def search(
    request: SearchRequest,
    dataset: Dataset,
    folder: Path,
    trials: int,
    tell: Callable[[Any], None] = lambda trial: None,
    scheduler: str | None = None,
) -> dict[str, Any]:
    """Run trials until there are `trials` of them (with those of other processes), then write the best as best.json.

    With the address of a Dask scheduler its workers train, as many trials at a time as they have threads; this process
    draws the settings and keeps the results.
    """
    optuna = _optuna()
    prepare(request, dataset, folder, trials)
    _revive(_study(folder, optuna.samplers.RandomSampler(request.seed)), request)
    study = _study(folder, _sampler(request))
    size = _points(request.space())
    with _trainers(request, dataset, scheduler) as (train_with, lanes):
        while (left := min(trials, size) - len(_counted(study))) > 0:
            study.optimize(
                lambda trial: _attempt(trial, request, train_with, trials), n_trials=min(left, lanes),
                n_jobs=min(left, lanes), catch=(UserError, _Enough), callbacks=[lambda _, trial: tell(trial)],
            )  # fmt: skip
    complete = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
    refused = [trial.user_attrs["error"] for trial in study.trials if "error" in trial.user_attrs]
    if refused and not complete:
        raise UserError(f"Every trial failed; the last one said: {refused[-1]}")
    if not complete:
        raise UserError("No trial was finished; raise --trials.")
    best = max(complete, key=lambda trial: trial.value)
    config, path = request.config(best.params), folder / "best.json"
    write_json(path, config.to_json())
    reached = {"trial": best.number, f"validation {config.training.monitor}": best.value, **best.params}
    alike = len(complete) > 1 and len({trial.value for trial in complete}) == 1
    return {"trials": len(complete), "alike": alike, "best": reached, "config": str(path)}


def side_by_side(command: Sequence[str], workers: int) -> None:
    """Run the same search in several processes at once; they print their trials, the result is left to the caller."""
    words = [sys.executable, "-W", "ignore", "-m", "legcf", *command]  # this process has said what there is to warn of
    processes = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(workers)]
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
    if all(codes):
        raise UserError("All workers of the search ended with an error; see above.")


class _Enough(Exception):
    """Say that another process began the last trial first."""


@contextmanager
def _trainers(request: SearchRequest, dataset: Dataset, scheduler: str | None) -> Iterator[tuple[_Train, int]]:
    """Yield what trains a configuration, reports each epoch and returns metrics; and how many train at a time."""
    if scheduler is None:
        yield lambda config, on_epoch: train(dataset, config, TrainingOptions(quiet=True, on_epoch=on_epoch)).metrics, 1
        return
    engine = find_part("engine", "dask", ENGINES)
    with engine.training(request.data, dataset.content_hash, scheduler) as (train_one, lanes):

        def train_there(config: RunConfig, on_epoch: _OnEpoch) -> dict[str, Any]:
            metrics, curve = train_one(config)
            for line in curve:
                with suppress(_optuna().TrialPruned):  # to give up what has ended would save nothing
                    on_epoch(line)
            return metrics

        yield train_there, lanes


def _attempt(trial: Any, request: SearchRequest, train_with: _Train, trials: int) -> float:
    """Make a trial, and return its score; one that is broken off is put back, for whoever searches on."""
    trial.set_user_attr("owner", owner_mark())
    try:
        earlier = [one for one in _counted(trial.study) if one.number < trial.number]
        if len(earlier) >= trials:
            raise _Enough
        return _score(trial, request, train_with)
    except (KeyboardInterrupt, _Enough):
        trial.study.enqueue_trial(_drawn(trial, request))
        raise


def _drawn(trial: Any, request: SearchRequest) -> dict[str, Any]:
    """Return the settings of a trial, which are drawn if it has none: a sampler refuses ended trials without them."""
    return {key: trial.suggest_categorical(key, list(part.values)) for key, part in request.space().items()}


def _score(trial: Any, request: SearchRequest, train_with: _Train) -> float:
    optuna = _optuna()
    drawn = _drawn(trial, request)
    monitor = request.config({}).training.monitor
    scores: list[float] = []

    def prune_or_go_on(line: dict[str, Any]) -> None:
        if monitor not in line.get("validation", {}):
            return
        scores.append(line["validation"][monitor])
        trial.report(max(scores), len(scores))
        if trial.number and trial.should_prune():  # the first is the default, which the best must not fall below
            raise optuna.TrialPruned

    try:
        metrics = train_with(request.config(drawn), prune_or_go_on)
    except UserError as error:
        trial.set_user_attr("error", str(error))
        raise
    trial.set_user_attr("num_params", metrics["num_params"])
    return float(metrics.get("validation", {}).get(monitor, max(scores, default=0.0)))


def _sampler(request: SearchRequest) -> Any:
    optuna = _optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if _points(request.space()) <= _SMALL_SPACE:
            return optuna.samplers.BruteForceSampler(seed=request.seed)
        return optuna.samplers.TPESampler(seed=request.seed, constant_liar=True)


def _study(folder: Path, sampler: Any) -> Any:
    optuna = _optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # a refused trial is told in a line of ours, not in a traceback
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

    path = folder / "trials.journal"
    _drop_cut_line(path, JournalFileSymlinkLock(str(path)))
    try:
        return optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(path))),
            study_name="search",
            sampler=sampler,
            pruner=optuna.pruners.MedianPruner(_UNTOUCHED_TRIALS, _UNTOUCHED_EPOCHS),
            direction="maximize",
            load_if_exists=True,
        )
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        raise _damaged(folder) from error


def _damaged(folder: Path) -> UserError:
    journal = folder / "trials.journal"
    return UserError(f"{journal} is damaged: choose another --out, or remove {folder} and search again.")


def _is_whole(trial: Any, choices: Mapping[str, Any]) -> bool:
    """Return whether a trial has settings of these choices alone, in their order, and once it has ended all of them."""
    had, expected = list(trial.distributions.items()), list(choices.items())
    if trial.state.name == "COMPLETE" and trial.value is None:
        return False
    return bool(had == (expected if trial.state.is_finished() else expected[: len(had)]))


def _drop_cut_line(path: Path, lock: Any) -> None:
    """Drop a last line that a crash or a full disk cut off: the next would be written behind it, and neither read."""
    lock.acquire()
    try:
        content = path.read_bytes() if path.exists() else b""
        if b"\n" in content and not content.endswith(b"\n"):
            os.truncate(path, content.rfind(b"\n") + 1)
    finally:
        lock.release()


def prepare(request: SearchRequest, dataset: Dataset, folder: Path, trials: int) -> None:
    """Check what is asked for, and mark the folder as this search's own."""
    if trials < 1:
        raise UserError(f"--trials {trials} leaves nothing to try; give at least 1.")
    if dataset.validation.num_pairs == 0:
        raise UserError(f"{dataset.name} has no validation part to choose by; take another --protocol.")
    if not request.space():
        raise UserError(
            f"Method {request.method} has nothing to search with preset {request.preset} and these settings: name keys"
            " with --over, or choose another --preset."
        )
    mark, path = request.mark(dataset.content_hash), folder / "search.json"
    if path.exists() and read_json(path) != mark:
        raise UserError(f"{folder} holds a search of other settings or data; choose another --out.")
    if not path.exists():
        if folder.exists() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise UserError(f"{folder} is not empty and holds no search; choose another --out.")
        write_json(path, mark)
    study = _study(folder, _sampler(request))
    choices = {key: _optuna().distributions.CategoricalDistribution(v.values) for key, v in request.space().items()}
    if not all(_is_whole(trial, choices) for trial in study.get_trials(deepcopy=False)):
        raise _damaged(folder)
    if not study.get_trials(deepcopy=False):
        study.enqueue_trial(request.usual(request.space()))


def _revive(study: Any, request: SearchRequest) -> None:
    """Fail trials whose process is gone, and put what they tried first into the queue."""
    optuna = _optuna()
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        owner = trial.user_attrs.get("owner")
        if owner is not None and is_gone(owner):
            drawn = _drawn(optuna.trial.Trial(study, trial._trial_id), request)
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)
            study.enqueue_trial(drawn)


def _counted(study: Any) -> list[Any]:
    """Return trials that are finished, pruned, refused or under way; those whose process is gone are tried again."""
    states = _optuna().trial.TrialState
    idle = (states.FAIL, states.WAITING)
    return [one for one in study.get_trials(deepcopy=False) if one.state not in idle or "error" in one.user_attrs]


def _points(space: Space) -> int:
    """Return how many points there are to choose from."""
    return math.prod(len(part.values) for part in space.values())


def _value(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise UserError(f"`{key}` cannot be searched: {config['method']['name']} has no such setting.")
        value = value[part]
    if isinstance(value, Mapping | list):
        raise UserError(
            f"`{key}` cannot be searched as a whole: name one of its keys, such as {key}.{next(iter(value))}."
        )
    return value


def owner_mark() -> str:
    """Return a mark of this process that no other process on any machine has."""
    process = psutil.Process(os.getpid())
    return f"{socket.gethostname()} {process.pid} {process.create_time():.2f}"


def is_gone(owner: str) -> bool:
    """Return whether the process of this mark has ended; of another machine's we cannot know."""
    host, pid, created = owner.rsplit(" ", 2)
    if host != socket.gethostname():
        return False
    try:
        process = psutil.Process(int(pid))
        other = abs(process.create_time() - float(created)) > _CLOCK_SECONDS
        return bool(other or process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtra("`legcf search`", "search") from error
    return optuna
