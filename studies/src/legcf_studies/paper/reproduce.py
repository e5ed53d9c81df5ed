# SPDX-License-Identifier: Apache-2.0
"""Reproduce studies from data to report: declare, run what is missing, show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf_studies.paper import published
from legcf_studies.paper.cells import Plan, Run, StudyContext, plan
from legcf_studies.paper.scheduler import DaskScheduler, HereScheduler, Scheduler
from legcf_studies.paper.store import ResultStore
from legcf_studies.paper.studies import EFFORTS, STUDIES, chosen_studies
from legcf_studies.workers.machine import cores


@dataclass(frozen=True)
class StudyRequest:
    """Hold what a user asks to have reproduced."""

    study: str
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 1
    effort: str = "quick"
    minutes: float | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    workers: int | None = None
    scheduler: str | None = None
    """The address of a Dask scheduler whose workers do the runs."""
    rows: Sequence[str] = ()
    """Names of the rows that are run; all if there are none. The report shows the others as missing."""
    typed: str | None = None
    """What commands in the report call the data; the source itself if None."""

    def check(self) -> None:
        chosen_studies(self.study)
        if self.effort not in EFFORTS:
            raise UserError(f"There is no effort `{self.effort}` of a reproduction: choose {' or '.join(EFFORTS)}.")
        if self.seeds < 1:
            raise UserError(f"--seeds {self.seeds} leaves nothing to run; give at least 1.")
        if self.minutes is not None and self.minutes <= 0:
            raise UserError(f"--minutes-per-run {self.minutes:g} is no time at all; give more than 0.")
        if self.workers is not None and self.workers < 1:
            raise UserError(f"--workers {self.workers} cannot do anything; give at least 1.")


def plans(request: StudyRequest, dataset: Dataset) -> dict[str, Plan]:
    """Return what the request asks for, by study."""
    request.check()
    if dataset.test.num_pairs == 0:
        raise UserError(f"{dataset.name} has no test part to compare methods on; choose another --protocol.")
    context = _study_context(request, dataset)
    asked = {
        name: plan(tuple(STUDIES[name].cells(context)), request.seeds, dataset.content_hash)
        for name in chosen_studies(request.study)
    }
    known = {cell.name for planned in asked.values() for cell in planned.cells}
    if unknown := sorted(set(request.rows) - known):
        raise UserError(f"{request.study} has no row `{unknown[0]}`; its rows are {', '.join(sorted(known))}.")
    return asked


def reproduce(
    request: StudyRequest, dataset: Dataset, store: ResultStore, tell: Callable[[str, Run], None]
) -> dict[str, Plan]:
    """Run what the store does not have yet; the tables are in the store afterwards."""
    asked = plans(request, dataset)
    for name, planned in asked.items():
        store.remember_study(name, dataset.name, request.effort, _remembered(planned, request, dataset))
    source, context = request.source, _study_context(request, dataset)
    common = (store, source, request.typed or source, request.options, context, tell)
    scheduler: Scheduler = (
        HereScheduler(*common, workers=request.workers or cores())
        if request.scheduler is None
        else DaskScheduler(*common, address=request.scheduler)
    )
    runs = [run for planned in asked.values() for run in planned.runs]
    scheduler.work([run for run in runs if not request.rows or run.cell.name in request.rows])
    return asked


def _study_context(request: StudyRequest, dataset: Dataset) -> StudyContext:
    return StudyContext(
        dataset.name, dataset.num_users, dataset.num_items, request.effort, request.minutes, request.overrides,
        dataset.train.num_pairs,
    )  # fmt: skip


def _remembered(planned: Plan, request: StudyRequest, dataset: Dataset) -> dict[str, Any]:
    """Return a study as the report needs it: rows with the keys of their runs."""
    return {
        "seeds": request.seeds,
        "minutes": request.minutes,
        "overrides": dict(request.overrides),
        "protocol": dataset.protocol,
        "content_hash": dataset.content_hash,
        "has_published": published.is_known(dataset.name, dataset.num_users, dataset.num_items),
        "num_users": dataset.num_users,
        "num_items": dataset.num_items,
        "rows": [
            {
                "cell": cell.name,
                "label": cell.label,
                "group": cell.group,
                "reference": cell.reference,
                "refused": planned.refused.get(cell.name),
                "runs": [run.key for run in planned.runs if run.cell.name == cell.name],
            }
            for cell in planned.cells
        ],
    }
