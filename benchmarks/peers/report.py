# SPDX-License-Identifier: Apache-2.0
"""Write docs/peers.md from the records of all runs, and every row of them to docs/reproduction/peers-tables.md."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roster import PROJECTS, ROWS, TRIALS

from legcf_studies.report.figure import new_figure, place_labels, plain, to_svg
from legcf_studies.workers.machine import describe

Record = dict[str, Any]
_ORDER = ("gowalla", "yelp2018", "lastfm", "ml-1m")
_ANYTIME = ("legcf fast", "legcf default")
_TABLES = "reproduction/peers-tables.md"
_SHORT = ("recall@20", "ndcg@20", "bytes", "fit", "memory")
_ALL = ("recall@20", "ndcg@20", "bytes", "fit", "fit, CPU", "first list", "all lists", "memory")
_INTRODUCTION = """# Side by side

Other projects on the same split, machine and day, each in an environment and a process of its own, all judged by our
evaluator from the lists that they rank. `make peers` writes this page; versions are pinned in
`benchmarks/peers/requirements/`, settings stand in `benchmarks/peers/roster.py`. Each table has the best row of each
project by ndcg@20, with our `default` and `fast`; [all rows]({tables}) have their own page, with CPU seconds, the time
to the first list and that of all lists.

- **bytes**: the model on disk without training pairs. Other projects save float32 tables or matrices; our file is
  packed, and holds no users where they are their histories.
- **fit**: seconds from pairs in memory to a model that can answer. **memory**: the peak of the whole process.
- *tuned*: chosen among {trials} settings on validation pairs, not counted in **fit**; `default` chooses within **fit**.
  Other rows have a project's defaults but for the sizes in their labels. A default that does not suit the data says
  little of a project.
- `fast` chooses only the weight of popularity; *untrained* is `default` with its usual codes and lists, nothing trained
  and only the weight of the lists chosen. The line in the plots of seconds shows what more time gives.
- A run ends after {limit} s. RecBole's learned models stop at 60 % of that with their best epoch, so they need not have
  converged.
"""
_INTRODUCTION_OF_TABLES = """# Side by side: all rows

Every row behind [side by side](../peers.md), which says what was compared and how, written by `make peers`. **fit,
CPU** is in seconds of CPU, which depend less on what else a machine is doing. **first list** is from the start of the
program to the first list, reading and importing included; **all lists** the top 20 of every user with test pairs (ours:
of every user, from the model file).
"""


def write(page: Path, work: Path, note: str = "") -> None:
    found = {folder.name: _records(folder) for folder in sorted(work.iterdir()) if folder.is_dir()}
    names = sorted((name for name in found if found[name]), key=lambda name: (_ORDER.index(name), name)
                   if name in _ORDER else (len(_ORDER), name))  # fmt: skip
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    limits = sorted({one["limit"] for some in found.values() for one in some})
    trials = sorted({one.get("trials", TRIALS) for some in found.values() for one in some if "tuned" in one["label"]})
    introduction = _INTRODUCTION.format(tables=_TABLES, trials=_either(trials or [TRIALS]), limit=_either(limits))
    blocks = [introduction.rstrip(), note, _better_elsewhere(found, names)]
    tables = [_INTRODUCTION_OF_TABLES.rstrip(), note]
    for name in names:
        records = found[name]
        for what, axis, unit in (("bytes", "bytes", "bytes on disk"), ("seconds", "fit_seconds", "seconds to fit")):
            (pictures / f"{name}-{what}.svg").write_text(_plot(records, axis, unit))
        images = " ".join(
            f"![{name}: ndcg@20 against {what}](peers/{name}-{what}.svg)" for what in ("bytes", "seconds")
        )
        blocks += [f"## {name}", _table(_best(records), _SHORT), images]
        tables += [f"## {name}", _table(records, _ALL), _choices(records), _failed(records)]
    _write_page(page, [*blocks, _conditions(found)])
    _write_page(page.parent / _TABLES, [*tables, _conditions(found)])


def _write_page(page: Path, blocks: Sequence[str]) -> None:
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(block for block in blocks if block) + "\n")


def _either(numbers: Sequence[float]) -> str:
    return " or ".join(f"{number:.0f}" for number in numbers)


def _records(folder: Path) -> list[Record]:
    paths = {row.key: folder / f"{row.key}.json" for row in ROWS}
    return [json.loads(path.read_text()) for path in paths.values() if path.exists()]


def _done(records: Sequence[Record]) -> list[Record]:
    return sorted((one for one in records if "failed" not in one), key=lambda one: -one["ndcg@20"])


def _title(one: Record) -> str:
    return f"{one['project']} {one['label']}"


def _better_elsewhere(found: dict[str, list[Record]], names: Sequence[str]) -> str:
    """Rows of other projects above our `default` (or `fast`) in accuracy, and how many fit sooner or in less memory."""
    lines = ["## What is better elsewhere", ""]
    for name in names:
        done = _done(found[name])
        ours = next((one for label in ("default", "fast") for one in done if _title(one) == f"legcf {label}"), None)
        if ours is None:
            lines.append(f"- **{name}**: neither `default` nor `fast` has been run.")
            continue
        label = ours["label"]
        others = [one for one in done if one["project"] != "legcf"]
        above = [one for one in others if any(one[key] > ours[key] for key in ("recall@20", "ndcg@20"))]
        told = [
            f"{_title(one)} ({one['recall@20'] - ours['recall@20']:+.4f} recall@20, "
            f"{one['ndcg@20'] - ours['ndcg@20']:+.4f} ndcg@20, at {_times(one['bytes'] / ours['bytes'])} the bytes)"
            for one in above
        ]
        sooner = sum(one["fit_seconds"] < ours["fit_seconds"] for one in others)
        leaner = sum(one["peak_mb"] < ours["peak_mb"] for one in others)
        lines.append(
            f"- **{name}**: above `{label}` in accuracy: {'; '.join(told) if told else 'none'}. Of {len(others)} rows"
            f" of other projects, {sooner} fit sooner than `{label}` and {leaner} need less memory to fit."
        )
    return "\n".join(lines)


def _best(records: Sequence[Record]) -> list[Record]:
    """Return the best row of each project, and ours that are talked of."""
    done = _done(records)
    best = {one["project"]: one for one in reversed(done)}
    return [one for one in done if one is best[one["project"]] or _title(one) in _ANYTIME]


def _table(records: Sequence[Record], columns: Sequence[str]) -> str:
    rows = [(_shown(one), *(_cells(one)[column] for column in columns)) for one in _done(records)]
    lines = [("", *columns), ("---",) + ("---:",) * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(one: Record) -> str:
    return f"**{_title(one)}**" if one["project"] == "legcf" else _title(one)


def _cells(one: Record) -> dict[str, str]:
    times = ("fit_seconds", "fit_cpu_seconds", "first_answer_seconds", "recommend_seconds")
    cells = [*(f"{one[name]:.4f}" for name in ("recall@20", "ndcg@20")), f"{one['bytes']:,}"]
    cells += [*(f"{one[name]:.1f} s" for name in times), f"{one['peak_mb']:,.0f} MB"]
    return dict(zip(_ALL, cells, strict=True))


def _choices(records: Sequence[Record]) -> str:
    """How much `default` was allowed to try."""
    ours = next((one for one in _done(records) if _title(one) == "legcf default"), {})
    judged = ours.get("judged")
    if not judged:
        return ""
    return (
        f"`default` made vectors in {judged['vectors']} ways and judged {judged['settings']} settings (mostly of lists"
        " beside the same vectors) on validation."
    )


def _failed(records: Sequence[Record]) -> str:
    """Why rows are not in the table."""
    told = [f"{_title(one)}: {one['failed']}." for one in records if "failed" in one]
    known = {_title(one) for one in records}
    missing = [title for title in (f"{PROJECTS[row.project].label} {row.label}" for row in ROWS) if title not in known]
    return " ".join([*told, f"Not run on these data: {', '.join(missing)}."] if missing else told)


def _plot(records: Sequence[Record], axis: str, unit: str) -> str:
    done = _done(records)
    figure = new_figure(6.4, 4.2)
    axes = figure.add_subplot()
    colours = {True: "tab:red", False: "tab:gray"}
    points = [(one[axis], one["ndcg@20"], _title(one), colours[one["project"] == "legcf"]) for one in done]
    axes.scatter([x for x, *_ in points], [y for _, y, *_ in points], c=[colour for *_, colour in points], s=16)
    if axis == "fit_seconds":  # what more time gives: from `fast` to `default` with all that it chooses
        anytime = sorted((one[axis], one["ndcg@20"]) for one in done if _title(one).startswith(_ANYTIME))
        axes.plot(*zip(*anytime, strict=True) if anytime else ((), ()), color=colours[True], linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel(unit)
    axes.set_ylabel("test ndcg@20")
    plain(axes)
    place_labels(figure, axes, points)
    return to_svg(figure)


def _conditions(found: dict[str, list[Record]]) -> str:
    records = [one for some in found.values() for one in some]
    versions = sorted({f"{one['project']} {one['version']}" for one in records})
    dates = sorted({one["date"] for one in records})
    threads = sorted({str(one["threads"]) for one in records})
    machine = describe()
    return (
        f"## Conditions\n\n{', '.join(versions)}. {machine['processor']}, {machine['cores']} cores,"
        f" {machine['memory_gb']} GB; {' or '.join(threads)} threads; Python {machine['python']}."
        f" Run on {' and '.join(dates)}."
    )


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.1f}×"
