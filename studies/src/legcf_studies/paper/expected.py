# SPDX-License-Identifier: Apache-2.0
"""Estimate how long runs will take: like the same run with another seed, or by the measured pace of their method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from legcf.core.files import read_json
from legcf.training.registry import METHODS
from legcf_studies.paper.cells import Plan, Run
from legcf_studies.paper.store import StoredRun

_SET_UP_SECONDS = 60.0  # METIS or a factorisation, the first propagation, the test at the end
_PACES: dict[str, float] = read_json(Path(__file__).with_name("paces.json"))["seconds"]
"""Seconds of an epoch for a million training pairs on one core, by method and backbone, and by propagation where that
is set."""


@dataclass(frozen=True)
class Workload:
    """Hold what is left to do of one study."""

    study: str
    runs: int
    finished: int
    seconds: float
    """For runs that are missing, one after the other, on one core each."""


def workloads(plans: Mapping[str, Plan], rows: Mapping[str, StoredRun], num_pairs: int) -> list[Workload]:
    """Return the workload of each study; a run that several share counts where it comes first."""
    counted, loads = set[str](), []
    known = {row.config_hash: row.seconds for row in rows.values() if row.status == "finished" and row.seconds}
    for name, planned in plans.items():
        own = {run.key: run for run in planned.runs if run.key not in counted}
        counted |= own.keys()
        missing = [run for key, run in own.items() if key not in rows or rows[key].status != "finished"]
        seconds = sum(_seconds(run, known, num_pairs) for run in missing)
        loads.append(Workload(name, len(own), len(own) - len(missing), seconds))
    return loads


def described(loads: Sequence[Workload], workers: int) -> list[str]:
    """Return the plan in words, a line for each study and one for all."""
    lines = [
        f"{load.study}: {load.runs} runs, {load.finished} finished, {_hours(load.seconds)} to go at most"
        for load in loads
    ]
    whole = sum(load.seconds for load in loads)
    side_by_side = f", {_hours(whole / workers)} with {workers} side by side" if workers > 1 else ""
    return [*lines, f"all: {_hours(whole)} on one core{side_by_side}; stop and go on as you like"]


def _seconds(run: Run, known: Mapping[str, float | None], num_pairs: int) -> float:
    if (seconds := known.get(run.config_hash)) is not None:
        return seconds
    config = run.config
    usual = f"{config.method.name} {config.backbone.name}"
    pace = _PACES.get(f"{usual} {config.training.propagation}", _PACES.get(usual, max(_PACES.values())))
    epochs = sum(stage.epochs for stage in METHODS[config.method.name].recipe(config.method, config.training))
    training = epochs * pace * num_pairs / 10**6
    limit = config.training.max_minutes
    return _SET_UP_SECONDS + (training if limit is None else min(training, 60 * limit))


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
