# SPDX-License-Identifier: Apache-2.0
"""Plot tables as SVG: markers and line styles tell things apart, so that they read in black and white too."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from legcf_studies.paper.store import ResultStore, StoredRun
from legcf_studies.report.case_study import case_studies
from legcf_studies.report.figure import NamedPicture, name_of, new_figure, place_labels, plain, to_svg
from legcf_studies.report.tables import Line, ResultTable

_DARK, _GREY, _RED = "#1a1a1a", "#8a8a8a", "#b2182b"
_STYLES = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."))
_SYMBOLS = {"t": "t", "m": "m (epochs between updates)", "w": "w*", "c": "c"}


def pictures(table: ResultTable, store: ResultStore) -> list[NamedPicture]:
    """Draw the plots of a study."""
    if table.kind == "case study":
        return case_studies(table, store)
    lines = [line for line in table.lines if line.runs]
    if not lines:
        return []
    is_compared = table.kind != "sweep" and any(line.published for line in lines)
    drawn = {
        _sweeps: table.kind == "sweep",
        _frontier: table.study in ("table2", "bytes"),
        _against_published: is_compared,
        _sizes: any(_sizes_of(line) for line in lines),
        _curves: True,
    }
    return [draw(table) for draw, is_drawn in drawn.items() if is_drawn]


def _frontier(table: ResultTable) -> NamedPicture:
    """Plot accuracy against size: ours filled, the paper's hollow, and the line that nothing of ours lies above."""
    figure = new_figure(9.5, 6)
    axes = figure.subplots()
    by_bytes = table.study == "bytes"
    ours = [
        (line.stored_bytes if by_bytes else float(line.params or 0), line.measured["ndcg@20"].mean, line.label)
        for line in table.lines
        if line.runs
    ]
    paper = [
        (line.published["params"], line.published["ndcg@20"], line.label)
        for line in table.lines
        if "params" in line.published
    ]
    if paper:
        axes.scatter(*_columns(paper), s=34, marker="s", facecolors="white", edgecolors=_GREY, label="paper", zorder=3)
    axes.scatter(*_columns(ours), s=40, marker="o", color=_DARK, label="ours", zorder=4)
    edge: list[tuple[float, float, str]] = []
    for point in sorted(ours):
        if not edge or point[1] > edge[-1][1]:
            edge.append(point)
    axes.plot(*_columns(edge), color=_DARK, linewidth=1, linestyle="--", zorder=2)
    axes.set_xscale("log")
    axes.margins(x=0.16, y=0.12)
    axes.set_xlabel("bytes that are stored" if by_bytes else "stored values (as the paper counts #Param)")
    axes.set_ylabel("NDCG@20, test")
    axes.legend(frameon=False, loc="lower right")
    plain(axes)
    own = {text: (x, y) for x, y, text in ours}
    joined = [[(x, y), own[text]] for x, y, text in paper if text in own]
    for ends in joined:
        axes.plot(*_columns(ends), color=_GREY, linewidth=0.7, linestyle=":", zorder=1)
    labels = [(x, y, text, _DARK) for x, y, text in ours]
    labels += [(x, y, text, _GREY) for x, y, text in paper if text not in own]
    marks = [(x, y) for x, y, _ in paper]
    place_labels(figure, axes, labels, marks, [[point[:2] for point in edge], *joined])
    caption = (
        "Accuracy against size: circles are ours, hollow squares the paper's (dotted lines lead to ours); "
        "the dashed line joins our best."
    )
    return name_of(table, "frontier"), to_svg(figure), caption


def _against_published(table: ResultTable) -> NamedPicture:
    """Draw a line for each method from the paper's value to ours."""
    lines = [line for line in table.lines if line.runs or line.published][::-1]
    figure = new_figure(8, 1.0 + 0.28 * len(lines))
    for axes, metric in zip(figure.subplots(1, 2, sharey=True), ("ndcg@20", "recall@20"), strict=True):
        for height, line in enumerate(lines):
            paper, ours = line.published.get(metric), line.measured.get(metric)
            if paper is not None and ours is not None:
                axes.plot([paper, ours.mean], [height, height], color=_GREY, linewidth=1, zorder=1)
            if paper is not None:
                axes.scatter([paper], [height], s=34, marker="s", facecolors="white", edgecolors=_DARK, zorder=2)
            if ours is not None:
                axes.errorbar(
                    [ours.mean], [height], xerr=ours.spread or 0, fmt="o", color=_DARK, markersize=5, zorder=3
                )
        axes.set_yticks(range(len(lines)), [line.label for line in lines])
        axes.set_xlabel({"ndcg@20": "NDCG@20, test", "recall@20": "Recall@20, test"}[metric])
        values = [line.published.get(metric, 0.0) for line in lines]
        values += [line.measured[metric].mean for line in lines if metric in line.measured]
        axes.set_xlim(0, 1.08 * max(values))
        axes.grid(axis="y", color="#e5e5e5", linewidth=0.6)
        axes.set_axisbelow(True)
        plain(axes)
    return name_of(table, "published"), to_svg(figure), "Ours (filled circles) and the paper's (hollow squares)."


def _sweeps(table: ResultTable) -> NamedPicture:
    groups = list(dict.fromkeys(line.group for line in table.lines))
    figure = new_figure(10, 2.9)
    for axes, group in zip(figure.subplots(1, len(groups), sharey=True, squeeze=False)[0], groups, strict=True):
        lines = [line for line in table.lines if line.group == group and line.runs]
        ticks = range(len(lines))
        for metric, style, marker in (("recall@20", "-", "o"), ("ndcg@20", "--", "s")):
            means = [line.measured[metric].mean for line in lines]
            spreads = [line.measured[metric].spread or 0 for line in lines]
            axes.errorbar(
                ticks, means, yerr=spreads, linestyle=style, marker=marker, color=_DARK, markersize=4, linewidth=1.1,
                label={"recall@20": "Recall@20", "ndcg@20": "NDCG@20"}[metric],
            )  # fmt: skip
        axes.set_xlabel(_SYMBOLS.get(group, group))
        axes.set_xticks(ticks, [line.cell.partition("=")[2] for line in lines])
        axes.margins(x=0.08)
        axes.set_ylim(bottom=0)
        plain(axes)
    figure.axes[0].set_ylabel("test")
    figure.axes[0].legend(frameon=False, loc="lower right", fontsize=8)
    return name_of(table, "sweeps"), to_svg(figure), "One setting changed at a time; the rest as in the paper."


def _sizes(table: ResultTable) -> NamedPicture:
    """Plot the sizes that methods which choose them gave to popular and rare entities."""
    figure = new_figure(9, 3.4)
    lines = [line for line in table.lines if _sizes_of(line)]
    for axes, side in zip(figure.subplots(1, 2, sharey=True), ("users", "items"), strict=True):
        for (marker, style), line in zip(cycle(_STYLES), lines, strict=False):
            means = [group["mean"] for group in _sizes_of(line)[side]]
            groups = range(1, len(means) + 1)
            axes.plot(
                groups, means, marker=marker, linestyle=style, color=_DARK, markersize=4, linewidth=1, label=line.label
            )
        axes.set_yscale("log")
        axes.set_xlabel(f"{side} by popularity, 10 groups from the rarest")
        plain(axes)
    figure.axes[0].set_ylabel("mean stored values per entity")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    return name_of(table, "sizes"), to_svg(figure), "Values that popular and rare users and items were given."


def _sizes_of(line: Line) -> dict[str, Any]:
    return dict(line.runs[0].metrics.get("sizes", {})) if line.runs else {}


def _curves(table: ResultTable) -> NamedPicture:
    """Draw a panel for each row: its validation curve over training time, the others in grey behind it."""
    lines = [line for line in table.lines if line.runs and len(line.runs[0].curve) > 1]
    columns = min(6, max(3, len(lines)))
    down = max(1, -(-len(lines) // columns))
    figure = new_figure(10, 0.5 + 1.55 * down)
    grid = figure.subplots(down, columns, sharex=True, sharey=True, squeeze=False)
    curves = {line.cell: [_curve(run) for run in line.runs] for line in lines}
    for panel, axes in enumerate(grid.flat):
        if panel >= len(lines):
            axes.set_visible(False)
            continue
        for others in curves.values():
            axes.plot(*others[0], color="#d0d0d0", linewidth=0.6)
        for minutes, scores in curves[lines[panel].cell]:
            axes.plot(minutes, scores, color=_DARK, linewidth=1.2)
            axes.plot(minutes[-1:], scores[-1:], "o", color=_DARK, markersize=2.5)
        axes.set_title(textwrap.fill(lines[panel].label, 22), fontsize=7.5)
        axes.tick_params(labelsize=7, labelbottom=panel + columns >= len(lines))
        plain(axes)
    figure.supxlabel("minutes of training", fontsize=8)
    figure.supylabel("validation NDCG@20", fontsize=8)
    caption = "Validation NDCG@20 over training time, one line per seed; others in grey."
    return name_of(table, "curves"), to_svg(figure), caption


def _curve(run: StoredRun) -> tuple[list[float], list[float]]:
    minutes, scores, passed = [], [], 0.0
    for line in run.curve:
        passed += line["seconds"] / 60
        if "ndcg@20" in line.get("validation", {}):
            minutes.append(passed)
            scores.append(line["validation"]["ndcg@20"])
    return minutes, scores


def _columns(points: Sequence[tuple[Any, ...]]) -> tuple[list[float], list[float]]:
    return [point[0] for point in points], [point[1] for point in points]
