# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/paper-checked.md and of its details, from the reports in docs/reproduction.

    python benchmarks/paper_tables.py

A table stands between the lines `<!-- DATA STUDY PRESET: begin -->` and `<!-- DATA STUDY PRESET: end -->` of a page.
"""

import json
import re
from pathlib import Path
from typing import Any

from legcf.experiments.statistics import Measured
from legcf_studies.paper.store import StoredRun
from legcf_studies.report.report import largest_fall
from legcf_studies.report.tables import ended_by, was_rising

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = (DOCS / "paper-checked.md", DOCS / "reproduction" / "details.md")
TITLES = {"gowalla": "Gowalla", "lastfm": "LastFM", "amazon-book-10k": "A third of Amazon-book"}
FILTERS = ("chebycf", "bspm")  # rank by the graph of all pairs
WORDS = {"validation": "validation", "last epoch": "its epochs", "time": "**time**"}
_PLACE = re.compile(r"(<!-- (\S+) (\S+) (\S+): begin -->\n)(.*?)(<!-- \2 \3 \4: end -->)", re.DOTALL)
# Four and forty times the release's batches and rate; study_official.py lastfm --batch 16400 --rate 0.04 compares them.
OFFICIAL = {"lastfm": {"batch": 1640, "rate": 4e-3}, "gowalla": {"batch": 16400, "rate": 4e-2}}
Line = tuple[dict[str, Any], list[StoredRun]]


def page(text: str) -> str:
    """The page with every table as the reports have it now."""
    return _PLACE.sub(lambda found: f"{found[1]}\n{table(found[2], found[3], found[4])}\n\n{found[6]}", text)


def table(data: str, study: str, preset: str) -> str:
    """A line for every row of the study; left out are empty columns, stages of rivals, and seeds if all are 0."""
    if study == "official":
        runs = json.loads((DOCS.parent / "benchmarks" / "results" / f"official-{data}.json").read_text())
        return official([run for run in runs if OFFICIAL[data].items() <= run.items()])
    lines = _lines(data, study, preset)
    if study == "bytes":
        return _by_bytes(data, lines)
    columns = {
        TITLES.get(data, data): [line["label"] for line, _ in lines],
        "seeds": [", ".join(str(run.seed) for run in runs) or "not run" for _, runs in lines],
        "values": [f"{line['params']:,}" if runs else "" for line, runs in lines],
        "paper R@20 / N@20": [_published(line) for line, _ in lines],
        "R@20": [_measured(runs, "recall@20") for _, runs in lines],
        "N@20": [_measured(runs, "ndcg@20") for _, runs in lines],
        "best validation N@20": [_validation(runs) for _, runs in lines],
        "largest fall": [_falls(runs) for _, runs in lines],
        "ended by": [_ends(runs) for _, runs in lines],
    }
    left_out: tuple[str, ...] = ()
    if study == "table2":
        left_out = ("best validation N@20", "largest fall", "ended by")
        names = columns[TITLES.get(data, data)]
        names[:] = [
            f"{name} (**time**)" if "time" in end else name
            for name, end in zip(names, columns["ended by"], strict=True)
        ]
    shown = {name: cells for name, cells in columns.items() if any(cells) and name not in left_out}
    if set(shown["seeds"]) == {"0"}:
        del shown["seeds"]
    rows = [f"| {' | '.join(cells)} |" for cells in zip(*shown.values(), strict=True)]
    return "\n".join([f"| {' | '.join(shown)} |", "|---" * len(shown) + "|", *rows])


def _by_bytes(data: str, lines: list[Line]) -> str:
    """A line for every row that was run, the smallest first; in bold what no row of as few bytes is above."""
    run = sorted((line for line in lines if line[1]), key=lambda line: _bytes(line[1]))
    text, best = (
        [f"| {TITLES.get(data, data)} | stored | needs beside it | R@20 | N@20 | ended by |", "|---" * 6 + "|"],
        0.0,
    )
    for line, runs in run:
        ndcg = Measured.of([run.metrics["test"]["ndcg@20"] for run in runs]).mean
        mark, best = ("**" if ndcg > best else ""), max(best, ndcg)
        scores = [f"{mark}{_measured(runs, name)}{mark}" for name in ("recall@20", "ndcg@20")]
        stored = f"{_bytes(runs) / 1000:,.0f} kB"
        text.append(f"| {' | '.join([line['label'], stored, _needed(runs[0]), *scores, _ends(runs)])} |")
    return "\n".join(text)


def _bytes(runs: list[StoredRun]) -> float:
    return Measured.of([run.metrics["storage_bytes"] for run in runs]).mean


def _needed(run: StoredRun) -> str:
    """What a request needs that is not among the stored bytes."""
    method, backbone = run.config["method"]["name"], run.config["backbone"]
    if method in FILTERS or backbone.get("layers"):
        return "all pairs"
    return "" if method == "popularity" or backbone["name"] != "history" else "the user's items"


def official(found: list[dict[str, Any]]) -> str:
    """A line for every part of study_official.py: means over seeds, and the least and the most that updates changed."""
    names = ("`official`, changed", "seeds", "pretraining", "with updates", "change", "test R@20 / N@20")
    text = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for part in dict.fromkeys(run["part"] for run in found):
        runs = sorted((run for run in found if run["part"] == part), key=lambda run: run["seed"])
        ends = [[_best(run, stage) for stage in ("pretrain", "alternate")] for run in runs]
        before, after = (sum(values) / len(runs) for values in zip(*ends, strict=True))
        changes = sorted(after / before - 1 for before, after in ends)
        spread = f" ({_signed(changes[0])} to {_signed(changes[-1])})" if len(runs) > 1 else ""
        test = [sum(run["test"][name] for run in runs) / len(runs) for name in ("recall@20", "ndcg@20")]
        cells = [
            part,
            ", ".join(str(run["seed"]) for run in runs),
            f"{before:.4f}",
            f"{after:.4f}",
            _signed(after / before - 1) + spread,
            "{:.4f} / {:.4f}".format(*test),
        ]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text)


def _best(run: dict[str, Any], stage: str) -> float:
    return max(epoch["ndcg@20"] for epoch in run["epochs"] if epoch["stage"] == stage)


def _signed(share: float) -> str:
    return f"{100 * share:+.0f} %".replace("-", "−")


def _lines(data: str, study: str, preset: str) -> list[Line]:
    content = json.loads((DOCS / "reproduction" / data / "results.json").read_text())
    runs = {run["key"]: StoredRun(**run) for run in content["runs"]}
    (found,) = [one for one in content["tables"] if (one["study"], one["preset"]) == (study, preset)]
    return [(line, [runs[key] for key in line["runs"]]) for line in found["lines"]]


def _published(line: dict[str, Any]) -> str:
    told = [line["published"].get(name) for name in ("recall@20", "ndcg@20")]
    return "" if None in told else " / ".join(f"{value:.4f}" for value in told)


def _measured(runs: list[StoredRun], metric: str) -> str:
    if not runs:
        return ""
    found = Measured.of([run.metrics["test"][metric] for run in runs])
    return f"{found.mean:.4f}" + (f" ±{found.spread:.4f}" if found.spread is not None else "")


def _validation(runs: list[StoredRun]) -> str:
    """The mean over seeds for each stage; nothing where stages have no names in common."""
    stages = [run.metrics.get("best_epochs") or {} for run in runs]
    if not stages:
        return ""
    means = [
        sum(stage[name]["validation ndcg@20"] for stage in stages) / len(stages)
        for name in stages[0]
        if all("validation ndcg@20" in stage.get(name, {}) for stage in stages)
    ]
    return " → ".join(f"{mean:.4f}" for mean in means)


def _falls(runs: list[StoredRun]) -> str:
    falls = [largest_fall(run) for run in runs]
    return ", ".join(falls) if all(falls) else ""


def _ends(runs: list[StoredRun]) -> str:
    ends = "; ".join(sorted({WORDS[ended_by(run)] for run in runs}))
    return ends + (", still rising" if any(was_rising(run) for run in runs) else "")


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path.read_text()))
