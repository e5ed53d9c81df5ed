# SPDX-License-Identifier: Apache-2.0
"""The table and the figure of docs/size.md, from what `frontier.py` has kept.

Model files are means over `SEEDS`, with the standard error of that mean where there are several; without one of them,
over what there is.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "size.md"
FIGURE = HERE.parent / "docs" / "images" / "frontier.svg"
BEGIN, END = "<!-- frontier: begin -->", "<!-- frontier: end -->"
DATA = {
    "gowalla": "Gowalla", "yelp2018": "Yelp2018", "lastfm": "LastFM", "ml-1m": "ml-1m",
    "movielens-small": "movielens-small",
}  # fmt: skip
KINDS = {
    "legcf": "`--bytes {}`",
    "als": "ALS, {}",
    "full": "LightGCN, {}",
    "ease": "EASE, {}",
}
SERIES = {  # label: kind, names, marker, line, colour
    "legcf, the whole file": ("legcf", "", "o", "-", "#d1495b"),
    "ALS, items alone: float32, 8 and 4 bits": ("als", "items, f8 4", "s", "-", "#30638e"),
    "the same, product quantised": ("als", "items, PQ", "s", ":", "#7ba6c9"),
    "the same in float32, with item lists": ("als", "items, float32, with lists", "D", "", "#2f9e8f"),
    "LightGCN, users and items: float32, 8 and 4 bits": ("full", "f8 4", "^", "-", "#8d6a9f"),
    "LightGCN, product quantised": ("full", "PQ", "^", ":", "#c3a6d1"),
    "EASE": ("ease", "float32", "P", "", "#444444"),
}
ON_THE_PAGE = {  # the figure has all
    "legcf": ("250kB", "500kB", "1MB", "2MB", "4MB", "8MB"),
    "als": ("items, float32", "items, 4 bits", "items, float32, with lists"),
    "full": ("float32", "4 bits"),
}
SEEDS = (221, 222, 223)
LOWEST = 0.8  # of the best: what is shown
ComparisonRow = dict[str, Any]


def results() -> dict[str, list[ComparisonRow]]:
    """Rows of every data set that was run, one for each name."""
    found = {}
    for data in DATA:
        path = RESULTS / f"frontier-{data}.json"
        if path.exists():
            rows = json.loads(path.read_text())
            files = [row for row in rows if row["kind"] == "legcf"]
            files = [row for row in files if row["seed"] in SEEDS] or files
            names = dict.fromkeys(row["name"] for row in files)
            means = [_mean([row for row in files if row["name"] == name]) for name in names]
            found[data] = means + [row for row in rows if row["kind"] != "legcf"]
    return found


def _mean(rows: list[ComparisonRow]) -> ComparisonRow:
    if "refused" in rows[0]:
        return rows[0]
    scores = np.array([row["ndcg@20"] for row in rows])
    error = float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None
    return {**rows[0], "bytes": max(row["bytes"] for row in rows), "ndcg@20": float(scores.mean()), "error": error}


def table(known: dict[str, list[ComparisonRow]]) -> str:
    """A line for every model of the page, a column for every data set."""
    lines = [f"| | {' | '.join(DATA[name] for name in known)} |", "|---" * (1 + len(known)) + "|"]
    for kind, name in ((kind, name) for kind, names in ON_THE_PAGE.items() for name in names):
        found = [_cell(rows, kind, name) for rows in known.values()]
        label = KINDS[kind].format(re.sub("^items, ", "items alone, ", name))
        lines.append(f"| {label} | {' | '.join(found)} |")
    return "\n".join(lines)


def _cell(rows: list[ComparisonRow], kind: str, name: str) -> str:
    found = [row for row in rows if (row["kind"], row["name"]) == (kind, name)]
    if not found:
        return "–"
    row = found[0]
    if "refused" in row:
        return "too small"
    size = f"{row['bytes'] / 1e6:,.2f} MB" if row["bytes"] < 1e9 else f"{row['bytes'] / 1e9:,.1f} GB"
    if "ndcg@20" not in row:
        return f"{size}: not run"
    bold = "**" * (kind == "legcf")
    error = f" ±{row['error']:.4f}" if row.get("error") is not None else ""
    return f"{size}: {bold}{row['ndcg@20']:.4f}{bold}{error}"


def show() -> None:
    """Write both."""
    known = results()
    text = PAGE.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    PAGE.write_text(f"{before}\n{table(known)}\n{after}")
    draw(known)


def draw(known: dict[str, list[ComparisonRow]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "legcf", "font.size": 9, "axes.spines.top": False}
    matplotlib.rcParams["axes.spines.right"] = False
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure, places = plt.subplots(2, 2, figsize=(9, 7.2))
    shown = {data: rows for data, rows in known.items() if any(row["kind"] == "als" for row in rows)}
    for place in places.flat[len(shown) :]:
        place.set_visible(False)
    for place, (data, rows) in zip(places.flat, shown.items(), strict=False):
        for label, (kind, names, marker, line, colour) in SERIES.items():
            found = [row for row in rows if row["kind"] == kind and "ndcg@20" in row and _belongs(row["name"], names)]
            found.sort(key=lambda row: row["bytes"])
            thick = 2.2 if kind == "legcf" else 1.2
            place.plot(
                [row["bytes"] / 1e6 for row in found], [row["ndcg@20"] for row in found], marker=marker,
                linestyle=line or "none", color=colour, label=label, linewidth=thick, markersize=5,
                zorder=3 if kind == "legcf" else 2,
            )  # fmt: skip
        best = max(row.get("ndcg@20", 0.0) for row in rows)
        place.set(xscale="log", title=DATA[data], ylim=(LOWEST * best, 1.01 * best))
        place.xaxis.set_major_locator(FixedLocator([0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64]))
        place.xaxis.set_minor_locator(NullLocator())
        place.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        place.grid(alpha=0.25)
        place.set(xlabel="megabytes that are needed to rank", ylabel="test NDCG@20")
    handles, labels = places[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 0.14, 1, 1))
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})


def _belongs(name: str, names: str) -> bool:
    """Whether a row is of a series: all, those product quantised, those in so many bits, or the one of this name."""
    if names.endswith("PQ"):
        return name.startswith(names)
    if names.endswith("f8 4"):
        return name in {f"{names.removesuffix('f8 4')}{one}" for one in ("float32", "8 bits", "4 bits")}
    return names in ("", name)
