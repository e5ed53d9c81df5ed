# SPDX-License-Identifier: Apache-2.0
"""Show how much popular and rare entities store: sizes by popularity, as numbers and as a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.data.interactions import Interactions
from legcf.data.summary import picture

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
    with picture(path) as figure:
        for axes, side in zip(figure.subplots(1, 2, sharey=True), ("users", "items"), strict=True):
            for name, sizes in runs.items():
                means = [group["mean"] for group in sizes[side]]
                axes.plot(np.arange(1, len(means) + 1), means, marker="o", label=name)
            axes.set(
                title=side, xlabel="popularity decile, 10 the most popular", ylabel="mean stored values", ylim=(0, None)
            )
            axes.legend()


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
