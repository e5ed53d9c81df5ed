# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/how-it-works.md, from movielens-small: `python tools/site/figures.py`."""

from pathlib import Path

import numpy as np

from legcf.assignment.dictionary import learn
from legcf.data.interactions import Interactions
from legcf.data.options import DataOptions
from legcf.data.source import load_data
from legcf.factorisation.als import AlsSettings, factorise
from legcf.ranking.item_lists.ridge import find_candidates, solve
from legcf_studies.report.figure import new_figure, plain, to_svg

IMAGES = Path(__file__).parents[2] / "docs" / "images"
FILMS, CODEBOOK, WIDTH = 60, 100, 32


def main() -> None:
    train = load_data("movielens-small", DataOptions(min_rating=4, k_core=5)).train
    _, items = factorise(train, WIDTH, np.random.default_rng(0), AlsSettings(alpha=10.0))
    _write("how-coding", _coding(items))
    _write("how-lists", _lists(train, items))


def _coding(table: np.ndarray) -> str:
    """A code drawn in the plane, and the error of codes by their number of weights."""
    figure = new_figure(7.2, 2.7)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.4))
    rows = np.array([[0.9, 0.25], [0.2, 0.85], [-0.7, 0.5], [-0.5, -0.7], [0.6, -0.6]])
    first, second = 0.95 * rows[0], 0.7 * rows[1]
    for row in rows:
        left.annotate("", row, (0, 0), arrowprops={"arrowstyle": "-|>", "color": "#9aa5b1"})
    left.annotate("", first, (0, 0), arrowprops={"arrowstyle": "-|>", "color": "#00796b", "linewidth": 2})
    left.annotate("", first + second, first, arrowprops={"arrowstyle": "-|>", "color": "#00796b", "linewidth": 2})
    left.plot(*(first + second), "o", color="#e64a19")
    left.text(*(first + second + 0.06), "item", color="#e64a19")
    left.text(-0.95, -0.95, "five rows of a codebook", color="#57606a")
    left.set(xlim=(-1, 1.45), ylim=(-1.05, 1.2), aspect="equal")
    left.axis("off")
    weights = range(1, 7)
    errors = []
    for t in weights:
        codebook, assignment = learn(table, CODEBOOK, t, np.random.default_rng(0))
        errors.append(float(np.linalg.norm(table - assignment.compose(codebook)) / np.linalg.norm(table)))
    right.plot(weights, errors, "o-", color="#00796b")
    right.set(xlabel="weights per film (t)", ylabel="relative error", ylim=(0, None))
    right.set_title(f"{len(table):,} films of {WIDTH} values, coded over {CODEBOOK} rows", fontsize=9)
    plain(right)
    return to_svg(figure)


def _lists(train: Interactions, items: np.ndarray) -> str:
    """What vectors, lists and both say of how strongly one popular film speaks for another."""
    by_item = train.transposed()
    lists = solve(train, find_candidates(train, 64, by_item), (1.0,), 0.5, by_item).lists()
    shown = np.argsort(-train.item_degrees)[:FILMS]
    order = shown[np.argsort(items[shown] @ np.linalg.svd(items[shown], full_matrices=False)[2][0])]
    products = items[order] @ items[order].T
    np.fill_diagonal(products, 0)
    spoken = lists.pairs.to_scipy()
    spoken.data = lists.weights
    sparse = spoken[order][:, order].toarray()
    threshold = np.sort(np.abs(sparse), axis=None)[-10 * FILMS]
    sparse[np.abs(sparse) < threshold] = 0
    figure = new_figure(7.2, 2.6)
    pictures = (
        ("vectors: smooth", products / np.abs(products).max()),
        ("lists: particular", sparse / np.abs(sparse).max()),
        ("both", products / np.abs(products).max() + sparse / np.abs(sparse).max()),
    )
    for axes, (title, picture) in zip(figure.subplots(1, 3), pictures, strict=True):
        axes.imshow(picture, cmap="BrBG", vmin=-1, vmax=1, interpolation="nearest")
        axes.set_title(title, fontsize=9)
        axes.set(xticks=[], yticks=[])
    return to_svg(figure)


def _write(name: str, svg: str) -> None:
    (IMAGES / f"{name}.svg").write_text(svg)


if __name__ == "__main__":
    main()
