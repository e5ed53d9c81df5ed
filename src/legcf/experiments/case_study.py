# SPDX-License-Identifier: Apache-2.0
"""The paper's case studies (Figures 2 and 3): embeddings around their anchors, and the average assignment weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legcf.arrays import FloatArray
from legcf.errors import MissingExtra
from legcf.experiments.figure import NamedPicture, name_of, new_figure, plain, to_svg
from legcf.experiments.store import ResultStore
from legcf.experiments.tables import Line, ResultTable

ANCHORS, ENTITIES_EACH, WEIGHTS = 5, 100, 20
_MARKERS = ("o", "^", "s", "D", "v")
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f7f7f")


@dataclass(frozen=True)
class AssignmentSnapshot:
    """Codebook and assignment at one moment."""

    codebook: FloatArray
    indices: NDArray[np.int32]
    weights: FloatArray

    @classmethod
    def from_bytes(cls, data: bytes) -> AssignmentSnapshot:
        from safetensors.numpy import load

        arrays = load(data)
        return cls(arrays["codebook"], arrays["indices"], arrays["weights"])

    def rows(self, entities: NDArray[np.integer]) -> FloatArray:
        """S · E_meta for some entities (Eq. 1)."""
        composed: FloatArray = np.einsum("et,etd->ed", self.weights[entities], self.codebook[self.indices[entities]])
        return composed

    def anchors(self) -> NDArray[np.integer]:
        """The heaviest meta-embedding of every entity."""
        return np.take_along_axis(self.indices, self.weights.argmax(axis=1)[:, None], axis=1)[:, 0]

    def average_weights(self) -> NDArray[np.float64]:
        """Mean over all entities of the weight of each meta-embedding."""
        totals = np.bincount(self.indices.ravel(), self.weights.ravel().astype(np.float64), len(self.codebook))
        return totals / len(self.indices)


def case_studies(table: ResultTable, store: ResultStore, seed: int = 0) -> list[NamedPicture]:
    """Both figures, from the first seed's runs; nothing until all three moments are there."""
    states = {line.cell: state for line in table.lines if (state := _state(line, store)) is not None}
    if set(states) != {"at-start", "pretrained", "at-end"}:
        return []
    rng = np.random.default_rng(seed)
    anchors, entities = sample(states["at-start"], rng)
    accuracy = {line.cell: line.runs[0].metrics["test"]["ndcg@20"] for line in table.lines}
    (last,) = (line.runs[0] for line in table.lines if line.cell == "at-end")
    updates = sum("update" in told for told in last.curve)
    return [
        _embeddings(table, states, anchors, entities, accuracy, updates, seed),
        _weights(table, states["at-start"], states["at-end"], updates, rng),
    ]


def sample(start: AssignmentSnapshot, rng: np.random.Generator) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Some meta-embeddings, and for each of them entities that have it as anchor at the start (anchors × entities)."""
    chosen = start.anchors()
    sizes = np.bincount(chosen, minlength=len(start.codebook))
    each = min(ENTITIES_EACH, int(np.sort(sizes)[-min(ANCHORS, len(sizes)) :].min()))
    able = np.flatnonzero(sizes >= max(each, 1))
    anchors = np.sort(rng.choice(able, min(ANCHORS, len(able)), replace=False))
    entities = np.stack([rng.choice(np.flatnonzero(chosen == anchor), each, replace=False) for anchor in anchors])
    return anchors, entities


def flatten(points: FloatArray, seed: int) -> NDArray[np.float64]:
    """t-SNE to two dimensions, each scaled to [−1, 1]."""
    try:
        from openTSNE import TSNE
    except ImportError as error:
        raise MissingExtra("The case studies", "report") from error
    perplexity = max(2.0, min(30.0, (len(points) - 1) / 3))
    placed = np.asarray(
        TSNE(perplexity=perplexity, initialization="pca", random_state=seed, n_jobs=1).fit(points), dtype=np.float64
    )
    placed -= (placed.max(axis=0) + placed.min(axis=0)) / 2
    placed /= np.abs(placed).max(axis=0)
    return placed


def _state(line: Line, store: ResultStore) -> AssignmentSnapshot | None:
    data = store.state(line.runs[0].key) if line.runs else None
    return None if data is None else AssignmentSnapshot.from_bytes(data)


def _embeddings(
    table: ResultTable,
    states: dict[str, AssignmentSnapshot],
    anchors: NDArray[np.integer],
    entities: NDArray[np.integer],
    accuracy: dict[str, float],
    updates: int,
    seed: int,
) -> NamedPicture:
    figure = new_figure(10, 3.6)
    titles = {"at-start": "initialisation", "pretrained": "after pretraining", "at-end": f"after {updates} updates"}
    for axes, (moment, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        state = states[moment]
        placed = flatten(np.concatenate([state.rows(entities.ravel()), state.codebook[anchors]]), seed)
        for number in range(len(anchors)):
            own = placed[number * entities.shape[1] : (number + 1) * entities.shape[1]]
            axes.scatter(*own.T, s=14, marker=_MARKERS[number], color=_COLOURS[number], alpha=0.7, linewidths=0)
        for number, point in enumerate(placed[entities.size :]):
            axes.scatter(
                *point, s=130, marker="X", color=_COLOURS[number], edgecolors="black", linewidths=1.1, zorder=3
            )
        axes.set_title(f"{title}, N@20 {accuracy[moment]:.4f}", fontsize=9)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set(xlim=(-1.12, 1.12), ylim=(-1.12, 1.12), aspect="equal")
    caption = (
        f"t-SNE of {entities.size} entities (one shape and colour for each anchor at the start) and of their "
        f"{len(anchors)} meta-embeddings (crosses)."
    )
    return name_of(table, "embeddings"), to_svg(figure), caption


def _weights(
    table: ResultTable, start: AssignmentSnapshot, end: AssignmentSnapshot, updates: int, rng: np.random.Generator
) -> NamedPicture:
    buckets = len(start.codebook)
    chosen = np.sort(rng.choice(buckets, min(WEIGHTS, buckets), replace=False))
    figure = new_figure(10, 2.8)
    for axes, state, title in zip(
        figure.subplots(1, 2), (start, end), ("initialisation", f"after {updates} updates"), strict=True
    ):
        axes.bar(range(len(chosen)), state.average_weights()[chosen], color="#595959", width=0.75)
        axes.set_xticks(range(len(chosen)), [str(bucket) for bucket in chosen], rotation=90, fontsize=7)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("meta-embedding")
        plain(axes)
    figure.axes[0].set_ylabel("average weight")
    caption = f"Average assignment weight of {len(chosen)} sampled meta-embeddings, over all entities."
    return name_of(table, "weights"), to_svg(figure), caption
