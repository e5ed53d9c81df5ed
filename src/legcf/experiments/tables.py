"""From the store's rows to tables: published, ours, difference, spread, best, and what cannot be told from the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.experiments import published
from legcf.experiments.statistics import LEVEL, Measured, holm, paired
from legcf.experiments.store import ResultStore, StoredRun
from legcf.experiments.studies import STUDIES


@dataclass
class Line:
    """A row of a table: one cell over its seeds."""

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
        """Ours against the published value, as a share of it."""
        told = self.published.get(metric)
        return None if metric not in self.measured or not told else self.measured[metric].mean / told - 1

    @property
    def is_capped(self) -> bool:
        """Whether time ended training rather than the validation metric or the last epoch."""
        return any(was_capped(run) for run in self.runs)

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
            "problem": self.problem,
            "runs": [run.key for run in self.runs],
        }


@dataclass
class ResultTable:
    study: str
    title: str
    kind: str
    dataset: str
    preset: str
    plan: dict[str, Any]
    lines: list[Line]

    @property
    def metrics(self) -> tuple[str, ...]:
        return published.PUBLISHED_METRICS if self.study == "table2" else ("ndcg@20", "recall@20")

    @property
    def seconds(self) -> float:
        """Of all its runs, one after the other."""
        return sum(run.seconds or 0.0 for run in {run.key: run for line in self.lines for run in line.runs}.values())

    def to_json(self) -> dict[str, Any]:
        facts = {key: value for key, value in self.plan.items() if key != "rows"}
        return {
            "study": self.study,
            "dataset": self.dataset,
            "preset": self.preset,
            **facts,
            "lines": [line.to_json() for line in self.lines],
        }


def all_tables(store: ResultStore) -> list[ResultTable]:
    """Every study that the store remembers, in the paper's order."""
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
        _judge(table, store)
    return table


def _line(plan: Mapping[str, Any], row: Mapping[str, Any], rows: Mapping[str, StoredRun]) -> Line:
    found = [rows[key] for key in row["runs"] if key in rows]
    finished = [run for run in found if run.status == "finished"]
    line = Line(row["cell"], row["label"], row["group"], row["reference"], finished, _problem(row, found))
    if plan["has_published"]:
        line.published = published.numbers(plan["dataset"], plan["study"], row["cell"])
    if finished:
        line.params = round(float(np.mean([run.metrics["num_params"] for run in finished])))
        line.measured = {
            name: Measured.of([run.metrics["test"][name] for run in finished]) for name in published.PUBLISHED_METRICS
        }
    return line


def _problem(row: Mapping[str, Any], found: list[StoredRun]) -> str | None:
    if row["refused"]:
        return str(row["refused"])
    failed = next((run for run in found if run.status == "failed"), None)
    if failed is not None:
        return f"failed (seed {failed.seed}): {failed.error}"
    missing = len(row["runs"]) - sum(run.status == "finished" for run in found)
    return f"{missing} of {len(row['runs'])} runs not finished yet" if missing else None


def _judge(table: ResultTable, store: ResultStore) -> None:
    """The best compressed row of each metric, and those that a paired t-test (Holm) does not tell from it."""
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
            if line is not best and len(per_user[line.cell][metric]) == len(per_user[best.cell][metric])
        }
        corrected = holm(tested)
        for line in rivals:
            if corrected.get(line.cell, 0.0) >= LEVEL:
                line.level.add(metric)


def _mean_per_user(line: Line, store: ResultStore) -> dict[str, NDArray[np.float64]]:
    over_seeds = [store.per_user(run.key) for run in line.runs]
    return {
        metric: np.mean([values[metric] for values in over_seeds], axis=0, dtype=np.float64)
        for metric in published.PUBLISHED_METRICS
    }


def was_capped(run: StoredRun) -> bool:
    limit = run.config["training"].get("max_minutes")
    trained = run.metrics.get("seconds", {}).get("train", 0.0)
    return limit is not None and trained > limit * 60
