# SPDX-License-Identifier: Apache-2.0
"""Make tables of the store's rows: published, ours, difference, spread, best, and what no test parts from the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.experiments.sheet import Sheet, SheetCell, Value
from legcf.experiments.statistics import LEVEL, Measured, paired
from legcf_studies.paper import published
from legcf_studies.paper.store import DRAWING, ResultStore, StoredRun
from legcf_studies.paper.studies import STUDIES


@dataclass
class Line:
    """Hold a row of a table: one cell over its seeds."""

    cell: str
    label: str
    group: str
    reference: bool
    runs: list[StoredRun]
    problem: str | None
    """Why there is nothing (or not all) to show."""
    params: int | None = None
    measured: dict[str, Measured] = field(default_factory=dict)
    published: dict[str, float] = field(default_factory=dict)
    best: set[str] = field(default_factory=set)
    """Metrics in which no compressed row is better."""
    level: set[str] = field(default_factory=set)
    """Metrics in which a paired test over users does not tell it from the best."""

    def difference(self, metric: str) -> float | None:
        """Return ours against the published value, as a share of it."""
        paper = self.published.get(metric)
        return None if metric not in self.measured or not paper else self.measured[metric].mean / paper - 1

    @property
    def stored_bytes(self) -> float:
        """Return the bytes of what is stored, a mean over seeds."""
        return float(np.mean([run.metrics["storage_bytes"] for run in self.runs]))

    @property
    def is_capped(self) -> bool:
        """Return whether time ended training rather than the validation metric or the last epoch."""
        return any(was_capped(run) for run in self.runs)

    @property
    def is_rising(self) -> bool:
        """Return whether a run was still getting better when its epochs were over."""
        return any(was_rising(run) for run in self.runs)

    def to_json(self) -> dict[str, Any]:
        return {
            "cell": self.cell,
            "label": self.label,
            "params": self.params,
            "published": self.published,
            "ours": {name: value.__dict__ for name, value in self.measured.items()},
            "difference": {name: self.difference(name) for name in self.measured if name in self.published},
            "best": sorted(self.best),
            "not_told_from_best": sorted(self.level),
            "stopped_by_time": self.is_capped,
            "still_rising": self.is_rising,
            "problem": self.problem,
            "runs": [run.key for run in self.runs],
        }


@dataclass
class ResultTable:
    """Hold a study as the report shows it."""

    study: str
    title: str
    kind: str
    dataset: str
    effort: str
    plan: dict[str, Any]
    lines: list[Line]

    @property
    def metrics(self) -> tuple[str, ...]:
        return published.PUBLISHED_METRICS if self.study == "table2" else ("ndcg@20", "recall@20")

    @property
    def seconds(self) -> float:
        """Return the seconds of all its runs, one after the other."""
        return sum(run.seconds or 0.0 for run in {run.key: run for line in self.lines for run in line.runs}.values())

    def sheet(self) -> Sheet:
        """Return sizes and metrics, the paper's beside ours where it has any."""
        compares = any(line.published for line in self.lines)
        columns = [
            f"{who} {metric}" for metric in self.metrics for who in (("paper", "ours") if compares else ("ours",))
        ]
        rows = []
        for line in self.lines:
            numbers: list[SheetCell] = []
            for metric in self.metrics:
                numbers += [line.published.get(metric)] if compares else []
                ours = line.measured.get(metric)
                marks = (metric in line.best, metric in line.level)
                numbers.append(None if ours is None else Value(ours.mean, ours.spread, *marks))
            rows.append([line.label, line.params, *numbers])
        return Sheet(f"{self.title} ({self.dataset}, {self.effort})", ["", "values", *columns], rows)

    def to_json(self) -> dict[str, Any]:
        facts = {"study": self.study, "dataset": self.dataset, "preset": self.effort}
        facts |= {key: value for key, value in self.plan.items() if key not in ("rows", DRAWING)}
        return {**facts, "lines": [line.to_json() for line in self.lines]}


def all_tables(store: ResultStore) -> list[ResultTable]:
    """Return every study that the store remembers, in the paper's order."""
    rows = store.rows()
    order = list(STUDIES)
    remembered = [plan for plan in store.studies() if plan["study"] in STUDIES]
    remembered.sort(key=lambda plan: (plan["dataset"], plan["preset"], order.index(plan["study"])))
    return [_table(plan, rows, store) for plan in remembered]


def _table(plan: dict[str, Any], rows: Mapping[str, StoredRun], store: ResultStore) -> ResultTable:
    study = STUDIES[plan["study"]]
    lines = [_line(plan, row, rows) for row in plan["rows"]]
    table = ResultTable(plan["study"], study.title, study.kind, plan["dataset"], plan["preset"], plan, lines)
    if study.kind == "table":
        _mark_best(table, store)
    return table


def _line(plan: Mapping[str, Any], row: Mapping[str, Any], rows: Mapping[str, StoredRun]) -> Line:
    stored = [rows[key] for key in row["runs"] if key in rows]
    finished = [run for run in stored if run.status == "finished"]
    line = Line(row["cell"], row["label"], row["group"], row["reference"], finished, _problem(row, stored))
    if plan["has_published"]:
        line.published = published.numbers(plan["dataset"], plan["study"], row["cell"])
    if finished:
        line.params = round(float(np.mean([run.metrics["num_params"] for run in finished])))
        line.measured = {
            name: Measured.of([run.metrics["test"][name] for run in finished]) for name in published.PUBLISHED_METRICS
        }
    return line


def _problem(row: Mapping[str, Any], stored: list[StoredRun]) -> str | None:
    if row["refused"]:
        return str(row["refused"])
    failed = next((run for run in stored if run.status == "failed"), None)
    if failed is not None:
        return f"failed (seed {failed.seed}): {failed.error}"
    missing = len(row["runs"]) - sum(run.status == "finished" for run in stored)
    return f"{missing} of {len(row['runs'])} runs not finished yet" if missing else None


def _mark_best(table: ResultTable, store: ResultStore) -> None:
    """Mark the best compressed row of each metric, and those that a paired t-test (Holm) does not tell from it."""
    rivals = [line for line in table.lines if line.runs and not line.reference]
    if len(rivals) < 2:
        return
    per_user = {line.cell: _mean_per_user(line, store) for line in rivals}
    for metric in table.metrics:
        best = max(rivals, key=lambda line: line.measured[metric].mean)
        best.best.add(metric)
        tested = {
            line.cell: paired(per_user[line.cell][metric], per_user[best.cell][metric]).t_test
            for line in rivals
            if line is not best and _pair_up(per_user[line.cell], per_user[best.cell])
        }
        corrected = holm(tested)
        for line in rivals:
            if corrected.get(line.cell, 0.0) >= LEVEL:
                line.level.add(metric)


def _pair_up(one: Mapping[str, NDArray[np.float64]], other: Mapping[str, NDArray[np.float64]]) -> bool:
    """Return whether both have a value for each of the same users; runs that came from a report have none."""
    return bool(one) and bool(other) and all(len(one[metric]) == len(other[metric]) for metric in one)


def _mean_per_user(line: Line, store: ResultStore) -> dict[str, NDArray[np.float64]]:
    over_seeds = [values for run in line.runs if (values := store.per_user(run.key))]
    if len(over_seeds) < len(line.runs):
        return {}
    return {
        metric: np.mean([values[metric] for values in over_seeds], axis=0, dtype=np.float64)
        for metric in published.PUBLISHED_METRICS
    }


def was_capped(run: StoredRun) -> bool:
    limit = run.config["training"].get("max_minutes")
    seconds = run.metrics.get("seconds", {})
    counted = seconds.get("counted", seconds.get("train", 0.0))  # older runs knew one clock alone
    return limit is not None and counted > limit * 60


def ended_by(run: StoredRun) -> str:
    if was_capped(run):
        return "time"
    last = run.curve[-1] if run.curve else {}
    return "last epoch" if last.get("epoch") == run.config["training"]["epochs"] else "validation"


def was_rising(run: StoredRun) -> bool:
    """Return whether it ended with the last epoch, the best of its stage among the last two, at a constant rate."""
    if ended_by(run) != "last epoch" or run.config["training"]["schedule"] != "constant":
        return False
    stage, epoch = run.curve[-1]["stage"], run.curve[-1]["epoch"]
    best = (run.metrics.get("best_epochs") or {}).get(stage)
    return epoch > 0 and best is not None and best["epoch"] >= epoch - 1


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values corrected for having tested all of them (Holm 1979)."""
    ordered = sorted(p_values.items(), key=lambda pair: pair[1])
    corrected: dict[str, float] = {}
    highest = 0.0
    for position, (name, value) in enumerate(ordered):
        highest = max(highest, min(1.0, value * (len(ordered) - position)))
        corrected[name] = highest
    return corrected
