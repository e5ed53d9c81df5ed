# SPDX-License-Identifier: Apache-2.0
"""Draw figures as SVG that is the same every time, and labels that do not cover each other."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from legcf.core.errors import MissingExtra
from legcf_studies.report.tables import ResultTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NamedPicture = tuple[str, str, str]
"""Name, SVG, caption."""
_WAYS = ((1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (0, -1))


def new_figure(width: float, height: float) -> Figure:
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("Plots", "report", "legcf-studies") from error
    mpl.rcParams.update({"svg.hashsalt": "legcf", "svg.fonttype": "path", "font.size": 9})
    figure = Figure(figsize=(width, height), dpi=72, layout="constrained")
    FigureCanvasSVG(figure)
    return figure


def to_svg(figure: Figure) -> str:
    """Return the same text for the same figure: no date, ids from a fixed salt, coordinates to a hundredth."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r'\bd="[^"]*"', lambda path: re.sub(r"(\d+\.\d\d)\d+", r"\1", path[0]), buffer.getvalue())


def plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def name_of(table: ResultTable, what: str) -> str:
    return f"{table.dataset}-{table.effort}-{table.study}-{what}"


def place_labels(
    figure: Figure,
    axes: Axes,
    points: Sequence[tuple[float, float, str, str]],
    marks: Sequence[tuple[float, float]] = (),
    lines: Sequence[Sequence[tuple[float, float]]] = (),
) -> None:
    """Write a label beside each point, farther off where it would cover another label, a point, a mark or a line."""
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    figure.canvas.draw()
    renderer = figure.canvas.get_renderer() if hasattr(figure.canvas, "get_renderer") else figure._get_renderer()  # type: ignore[attr-defined]
    legend = axes.get_legend()
    taken = [legend.get_window_extent(renderer)] if legend is not None else []
    for x, y in [*((point[0], point[1]) for point in points), *marks]:
        across, up = axes.transData.transform((x, y))
        taken.append(Bbox.from_bounds(across - 3, up - 3, 6, 6))
    corners = [[axes.transData.transform(point) for point in line] for line in lines]
    for (x0, y0), (x1, y1) in (ends for line in corners for ends in pairwise(line)):
        shares = np.linspace(0, 1, 60)
        taken += [Bbox.from_bounds(x0 + s * (x1 - x0) - 1, y0 + s * (y1 - y0) - 1, 2, 2) for s in shares]
    frame = axes.get_window_extent(renderer)
    for x, y, text, colour in points:
        label = None
        for distance, (right, above) in ((d, way) for d in (6, 14, 24, 36, 50, 66) for way in _WAYS):
            if label is not None:
                label.remove()
            label = axes.annotate(
                text, (x, y), (right * distance, above * distance), textcoords="offset points", fontsize=8,
                color=colour, ha={1: "left", 0: "center", -1: "right"}[right],
                va={1: "bottom", 0: "center", -1: "top"}[above],
                arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5} if distance > 10 else None,
            )  # fmt: skip
            label.set_in_layout(False)
            label.update_positions(renderer)
            box = Text.get_window_extent(label, renderer).expanded(1.02, 1.1)
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not any(box.overlaps(other) for other in taken):
                break
        assert label is not None
        taken.append(Text.get_window_extent(label, renderer))
