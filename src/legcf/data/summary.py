# SPDX-License-Identifier: Apache-2.0
"""Describe a dataset: counts, density, degrees, cold users and items; as numbers and as a picture."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import MissingExtra, UserError
from legcf.core.files import written_whole
from legcf.data.interactions import Dataset
from legcf.data.preparing.splits import PARTS


def summarise(dataset: Dataset) -> dict[str, Any]:
    """Return plain numbers, ready for JSON."""
    parts = {part: getattr(dataset, part).num_pairs for part in PARTS}
    pairs = sum(parts.values())
    users, items = _degrees(dataset)
    return {
        "name": dataset.name,
        "protocol": dataset.protocol,
        "users": dataset.num_users,
        "items": dataset.num_items,
        "pairs": pairs,
        "density": pairs / max(dataset.num_users * dataset.num_items, 1),
        "parts": parts,
        "cold_users": int(np.count_nonzero(dataset.train.user_degrees == 0)),
        "cold_items": int(np.count_nonzero(dataset.train.item_degrees == 0)),
        "users_in_test": int(np.count_nonzero(dataset.test.user_degrees)),
        "user_degrees": _distribution(users),
        "item_degrees": _distribution(items),
        "titles": dataset.titles is not None,
        "kept": dict(dataset.provenance.get("kept", {})),
        "content_hash": dataset.content_hash,
    }


def what_was_kept(dataset: Dataset) -> str:
    """Say in a sentence or two what became of the rows that were read, and how the pairs were split."""
    parts = {part: getattr(dataset, part).num_pairs for part in PARTS}
    kept = {"users": dataset.num_users, "items": dataset.num_items, "pairs": sum(parts.values())}
    kept |= dataset.provenance.get("kept", {})
    if dataset.repeats:  # rows are many of a pair, and a pair may be in several parts
        kept["pairs"] = sum(parts.values())
    sizes = ", ".join(_counted(kept[name], name) for name in ("users", "items", "pairs"))
    clauses = [f"{_counted(kept['rows'], 'rows')} → {sizes}" if "rows" in kept else sizes]
    rating = dataset.provenance.get("options", {}).get("min_rating")
    lower = "of no weight or rated low" if rating is None else f"rated below {rating}"
    left_out = {
        "rated_too_low": ("rows", f" {lower} left out"),
        "dislikes": ("rows", " are dislikes"),
        "missing": ("rows", " without a value left out"),
        "duplicates_merged": ("duplicates", " merged"),
        "users_dropped": ("users", " dropped"),
        "items_dropped": ("items", " dropped"),
    }
    clauses += [_counted(kept[key], things) + fate for key, (things, fate) in left_out.items() if kept.get(key)]
    if kept.get("ratings_ignored"):
        clauses.append("ratings ignored, every row counts (--min-rating 4 would keep those rated 4 or more)")
    if kept.get("times"):
        clauses.append(f"times read as {kept['times']}")
    split = ", ".join(f"{count:,} {part}" for part, count in parts.items())
    return f"{dataset.name}: {'; '.join(clauses)}. Protocol {dataset.protocol}: {split}."


def _counted(count: int, things: str) -> str:
    return f"{count:,} {things.removesuffix('s') if count == 1 else things}"


def plot(dataset: Dataset, path: Path) -> None:
    """Draw degrees by rank, on logarithmic scales, beside the sizes of the parts."""
    with picture(path) as figure:
        curves, bars = figure.subplots(1, 2, width_ratios=(3, 2))
        for degrees, name in zip(_degrees(dataset), ("users", "items"), strict=True):
            curves.loglog(np.arange(1, len(degrees) + 1), np.maximum(np.sort(degrees)[::-1], 0.5), label=name)
        curves.set(xlabel="rank", ylabel="pairs", title=f"Degrees in {dataset.name}")
        curves.legend()
        drawn = bars.bar(PARTS, [getattr(dataset, part).num_pairs for part in PARTS])
        bars.bar_label(drawn, fmt="{:,.0f}")
        bars.set(title=f"Pairs, protocol {dataset.protocol}")


@contextmanager
def picture(path: Path) -> Iterator[Any]:
    """Yield a figure of matplotlib to draw on, and write it in the format that the name says."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("Drawing a picture", "plot") from error
    kind = path.suffix.lstrip(".").lower() or "png"
    figure = Figure(figsize=(9, 4), layout="constrained")
    if kind not in FigureCanvasAgg(figure).get_supported_filetypes():
        raise UserError(f"{path} is not a picture that can be drawn: end it in .png, .svg or .pdf.")
    yield figure
    with written_whole(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150)


def _degrees(dataset: Dataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the pairs of each user and item in all parts together."""
    parts = (dataset.train, dataset.validation, dataset.test)
    return np.sum([part.user_degrees for part in parts], axis=0), np.sum([part.item_degrees for part in parts], axis=0)


def _distribution(degrees: NDArray[np.int64]) -> dict[str, float]:
    if len(degrees) == 0:
        return {}
    low, median, high = np.quantile(degrees, (0.1, 0.5, 0.9))
    return {
        "min": int(degrees.min()),
        "p10": float(low),
        "median": float(median),
        "mean": float(degrees.mean()),
        "p90": float(high),
        "max": int(degrees.max()),
    }
