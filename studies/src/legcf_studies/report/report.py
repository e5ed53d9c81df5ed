# SPDX-License-Identifier: Apache-2.0
"""Write the report of a store: tables, plots, curves, and the command and configuration behind every number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from legcf.core.config import merged
from legcf.core.errors import MissingExtra, UserError
from legcf.core.files import read_json, write_json
from legcf.experiments.statistics import LEVEL
from legcf.training.registry import config_from_json
from legcf_studies.paper import published
from legcf_studies.paper.cells import hash_today, key_of
from legcf_studies.paper.store import DRAWING, ResultStore, StoredRun
from legcf_studies.paper.studies import STUDIES
from legcf_studies.report.document import (
    Element,
    Folded,
    Grid,
    Heading,
    Listing,
    Picture,
    Text,
    write_html,
    write_markdown,
)
from legcf_studies.report.tables import Line, ResultTable, all_tables, ended_by, was_rising

_SHORT = {"ndcg@10": "N@10", "recall@10": "R@10", "ndcg@20": "N@20", "recall@20": "R@20"}
_MARK = "°"
_RESULTS = "results.json"


def write_report(store: ResultStore, folder: Path) -> dict[str, Any]:
    """Write results.md with plots/, results.html and results.json; return what the last one holds."""
    tables = all_tables(store)
    blocks = _page(store, tables)
    content = {
        "tables": [table.to_json() for table in tables],
        "studies": store.studies(),
        "runs": [row.to_json() for row in store.rows().values()],
    }
    write_markdown(folder / "results.md", blocks)
    write_html(folder / "results.html", "legcf: the paper, reproduced", blocks)
    write_json(folder / _RESULTS, content)
    return content


def take_back(store: ResultStore, folder: Path) -> int:
    """Put runs of a report into a store that lacks them, as in a fresh clone without a store; return how many."""
    path = folder / _RESULTS
    if not path.exists():
        return 0
    content = read_json(path)
    try:
        without = _lacking_their_states(content.get("studies", ()))
        finished = [run for run in content["runs"] if run["status"] == "finished" and run["key"] not in without]
        renamed = {run["key"]: _as_of_today(run) for run in finished}
        names = {old: run["key"] for old, run in renamed.items()}
        return store.take_in(renamed.values(), [_renamed(plan, names) for plan in content.get("studies", ())])
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is no report that can be gone on from; move it away or choose another --out."
        ) from error


def _lacking_their_states(studies: Iterable[dict[str, Any]]) -> set[str]:
    """Return runs that must be run again: figures are to be drawn from their states, which a report has not."""
    return {
        key
        for plan in studies
        if plan["study"] in STUDIES and STUDIES[plan["study"]].kind == "case study" and DRAWING not in plan
        for row in plan["rows"]
        for key in row["runs"]
    }


def _renamed(plan: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a study whose runs have other keys now."""

    def with_names(holder: dict[str, Any]) -> dict[str, Any]:
        return {**holder, "runs": [names.get(key, key) for key in holder["runs"]]}

    drawn = {DRAWING: with_names(plan[DRAWING])} if DRAWING in plan else {}
    return {**plan, **drawn, "rows": [with_names(row) for row in plan["rows"]]}


def _as_of_today(run: dict[str, Any]) -> dict[str, Any]:
    """Return a run with the settings and the key that it has now: both, or the next change would not know it."""
    hashed = hash_today(run["config"], run["config_hash"])
    if hashed == run["config_hash"]:
        return run
    config = config_from_json(run["config"]).to_json()
    key = key_of(hashed, run["content_hash"], run["seed"])
    return {**run, "config": config, "config_hash": hashed, "key": key}


def _page(store: ResultStore, tables: Sequence[ResultTable]) -> list[Element]:
    blocks: list[Element] = [Heading("The paper, reproduced", 1), Text(_introduction(tables))]
    for table in tables:
        blocks.append(Heading(f"{table.title} ({table.dataset}, `{table.effort}`)"))
        blocks.append(Text(_about(table)))
        if table.kind != "case study":
            blocks.append(_grid(table))
        problems = [f"{line.label}: {line.problem.rstrip('.')}" for line in table.lines if line.problem]
        blocks += [Text(f"Missing. {'; '.join(problems)}.")] if problems else []
        blocks += _pictures(table, store)
        blocks += _sweep_notes(table)
        blocks.append(Folded("Commands, settings and times", [_costs(table), *_commands(table)]))
    blocks += _machines(list(store.rows().values()))
    return blocks


def _introduction(tables: Sequence[ResultTable]) -> str:
    if not tables:
        return "The store holds no study yet: `legcf reproduce table2 --data DATA` runs one."
    return (
        f"Published numbers are those of {published.source()}; ours are means over seeds on the **test** part, ± the "
        "sample deviation over seeds. Validation chooses the epoch, test only reports. **Bold** is the best compressed "
        f"row; {_MARK} marks what a paired t-test over users (per-user values averaged over seeds, Holm's correction, "
        f"p ≥ {LEVEL}) does not tell from it. `values` are counted as the paper counts #Param."
    )


def _about(table: ResultTable) -> str:
    plan = table.plan
    seeds = f"{plan['seeds']} seed{'s' if plan['seeds'] > 1 else ''}"
    text = (
        f"{plan['num_users']:,} users, {plan['num_items']:,} items, protocol `{plan['protocol']}`, {seeds}; "
        f"{_duration(table.seconds)} of runs in all."
    )
    text += _not_converged(table, "Stopped by the time limit", [line for line in table.lines if line.is_capped])
    text += _not_converged(table, "Still rising at the last epoch", [line for line in table.lines if line.is_rising])
    text += _losses(table)
    if not plan["has_published"]:
        text += f" The paper has no numbers for {table.dataset}: there is nothing to compare with."
    if plan["overrides"]:
        text += f" Settings changed for all runs{_exceptions(table)}: `{json.dumps(plan['overrides'])}`."
    return text


def _exceptions(table: ResultTable) -> str:
    """Name the rows that have other values of the settings changed: those that they are about."""
    others = [
        line.label for line in table.lines if any(not _has(run.config, table.plan["overrides"]) for run in line.runs)
    ]
    return f" but those of {'; '.join(others)}, which are about such a setting" if others else ""


def _has(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> bool:
    """Return whether these settings would change nothing in a run's configuration."""
    own = config_from_json(config)
    return config_from_json(merged(own.to_json(), overrides)) == own


def _not_converged(table: ResultTable, why: str, lines: Sequence[Line]) -> str:
    if not lines:
        return ""
    every = len(lines) == len([line for line in table.lines if line.runs])
    return f" {why}, so not converged: {'all' if every else '; '.join(line.label for line in lines)}."


def _losses(table: ResultTable) -> str:
    """Say which rows were trained for which loss, where they differ by more than their methods."""
    by_loss: dict[str, list[str]] = {}
    for line in table.lines:
        for loss in {run.config["training"]["loss"] for run in line.runs}:
            by_loss.setdefault(loss, []).append(line.label)
    if len(by_loss) < 2:
        return ""
    which = "; ".join(f"{loss} for {', '.join(labels)}" for loss, labels in by_loss.items())
    return f" Rows differ in their loss too, not in the method alone: {which}."


def _grid(table: ResultTable) -> Grid:
    """Lay out published, ours and the difference for every metric; the published columns only where there are any."""
    compares = any(line.published for line in table.lines)
    each = ["paper", "ours", "diff."] if compares else ["ours"]
    sizes = ["paper", "ours"] if compares and table.study == "table2" else ["ours"]
    header = ["", *sizes, *(each * len(table.metrics)), "s"]
    spans = [("", 1), ("values", len(sizes)), *((_SHORT[name], len(each)) for name in table.metrics), ("time", 1)]
    rows = []
    for line in table.lines:
        counts = [line.published.get("params"), line.params][-len(sizes) :]
        metrics = [cell for metric in table.metrics for cell in _metric_cells(line, metric, compares)]
        seconds = f"{sum(run.seconds or 0 for run in line.runs) / len(line.runs):,.0f}" if line.runs else ""
        rows.append([line.label, *("" if count is None else f"{count:,.0f}" for count in counts), *metrics, seconds])
    return Grid(header, rows, spans)


def _metric_cells(line: Line, metric: str, compares: bool) -> list[str]:
    paper, ours, change = line.published.get(metric), line.measured.get(metric), line.difference(metric)
    shown = ""
    if ours is not None:
        shown = f"{ours.mean:.4f}" + (f" ±{ours.spread:.4f}" if ours.spread is not None else "")
        shown = f"**{shown}**" if metric in line.best else shown + (_MARK if metric in line.level else "")
    if not compares:
        return [shown]
    return [
        "" if paper is None else f"{paper:.4f}",
        shown,
        "" if change is None else f"{change:+.0%}".replace("-", "−"),
    ]


def _pictures(table: ResultTable, store: ResultStore) -> list[Element]:
    from legcf_studies.report import plots

    try:
        return [Picture(name, svg, caption) for name, svg, caption in plots.pictures(table, store)]
    except MissingExtra as error:  # hours of runs must not end without their tables
        return [Text(f"No plots here. {error}")]


def _sweep_notes(table: ResultTable) -> list[Element]:
    if table.kind != "sweep" or not table.plan["has_published"]:
        return []
    names = dict.fromkeys(line.group for line in table.lines)
    return [Text(f"The paper on {name}: {said}") for name in names if (said := published.said(name))]


def _costs(table: ResultTable) -> Grid:
    rows = [
        [
            line.label, str(run.seed), _duration(run.seconds or 0), f"{run.peak_memory_mb or 0:,.0f}",
            _best_epoch(run), ended_by(run) + (", still rising" if was_rising(run) else ""), largest_fall(run),
            f"{run.metrics['storage_bytes']:,}",
            f"{run.metrics['total_trainable']:,}", run.code_version, run.config_hash[:12],
        ]
        for line in table.lines
        for run in line.runs
    ]  # fmt: skip
    header = ["", "seed", "time", "peak MB", "best epoch", "ended by", "largest fall at an update"]
    return Grid([*header, "bytes stored", "trainable", "code", "config"], rows)


def _commands(table: ResultTable) -> list[Element]:
    blocks: list[Element] = []
    for line in table.lines:
        if line.runs:
            blocks.append(Heading(line.label, 4))
            blocks.append(Listing("\n".join(run.command or "" for run in line.runs)))
            config = json.dumps({**line.runs[0].config, "data": {}}, indent=1, ensure_ascii=False)
            blocks.append(Folded("the whole configuration", [Listing(config)]))
    return blocks


def _machines(rows: Sequence[StoredRun]) -> list[Element]:
    seen = {json.dumps(row.machine, sort_keys=True): row.machine for row in rows if row.machine}
    if not seen:
        return []
    lines = [
        f"{machine['host']}: {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB,"
        f" {machine['system']}, Python {machine['python']}, torch {machine['torch']}."
        for machine in seen.values()
    ]
    finished = [row for row in rows if row.status == "finished"]
    codes = sorted({row.code_version for row in rows})
    return [
        Heading("Where it ran"),
        *(Text(line) for line in lines),
        Text(f"{len(finished)} runs, {_duration(sum(row.seconds or 0 for row in finished))} one after the other."),
        Text(f"Code: legcf {', '.join(codes)}."),
    ]


def _best_epoch(run: StoredRun) -> str:
    """Name the epoch of the weights that were kept, then those of the other stages."""
    kept, stages = run.metrics.get("best_epoch"), run.metrics.get("best_epochs") or {}
    others = [f"{stage} {best['epoch']}" for stage, best in stages.items() if not kept or stage != kept["stage"]]
    own = [f"{kept['stage']} {kept['epoch']} of {len(run.curve) - 1}"] if kept else []
    return "; ".join(own + others)


def largest_fall(run: StoredRun) -> str:
    """Say how far validation fell at most from an epoch to the next, where S was updated in between."""
    scores = [(line, line["validation"]["ndcg@20"]) for line in run.curve if "ndcg@20" in line.get("validation", {})]
    changes = [after / before - 1 for (_, before), (line, after) in pairwise(scores) if "update" in line and before > 0]
    if not changes:
        return ""
    return f"{min(changes):.1%}".replace("-", "−") if min(changes) < 0 else "none"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
