# SPDX-License-Identifier: Apache-2.0
"""Show how much popular and rare entities store: sizes by popularity, as numbers and as a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import MissingExtra, UserError
from legcf.core.files import written_whole
from legcf.data.interactions import Interactions

GROUPS = 10


def sizes_by_popularity(sizes: NDArray[np.integer], train: Interactions) -> dict[str, Any]:
    """Average stored values in groups of equally many, from rarest to most popular, users and items apart."""
    sides = {
        "users": (sizes[: train.num_users], train.user_degrees),
        "items": (sizes[train.num_users :], train.item_degrees),
    }
    return {"mean": float(sizes.mean()), **{name: _groups(*side) for name, side in sides.items()}}


def plot_sizes(runs: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Draw a line per run, by the name to show: the mean size in every group, users and items beside each other."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("Drawing a picture", "plot") from error
    kind = path.suffix.lstrip(".").lower() or "png"
    figure = Figure(figsize=(9, 4), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    if kind not in canvas.get_supported_filetypes():
        raise UserError(f"{path} is not a picture that can be drawn: end it in .png, .svg or .pdf.")
    for axes, side in zip(figure.subplots(1, 2, sharey=True), ("users", "items"), strict=True):
        for name, sizes in runs.items():
            means = [group["mean"] for group in sizes[side]]
            axes.plot(np.arange(1, len(means) + 1), means, marker="o", label=name)
        axes.set(
            title=side, xlabel="popularity decile, 10 the most popular", ylabel="mean stored values", ylim=(0, None)
        )
        axes.legend()
    with written_whole(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150)


def _groups(sizes: NDArray[np.integer], degrees: NDArray[np.int64]) -> list[dict[str, float]]:
    order = np.argsort(degrees, kind="stable")
    return [
        {
            "entities": len(members),
            "least_pairs": int(degrees[members[0]]),
            "most_pairs": int(degrees[members[-1]]),
            "mean": float(sizes[members].mean()),
            "min": int(sizes[members].min()),
            "max": int(sizes[members].max()),
        }
        for members in np.array_split(order, min(GROUPS, len(order)))
        if len(members)
    ]
