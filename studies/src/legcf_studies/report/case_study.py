# SPDX-License-Identifier: Apache-2.0
"""Draw the paper's case studies (Figures 2 and 3): embeddings around their anchors, and average assignment weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.core.errors import MissingExtra
from legcf_studies.paper.store import DRAWING, ResultStore
from legcf_studies.report.figure import NamedPicture, name_of, new_figure, plain, to_svg
from legcf_studies.report.tables import ResultTable

ANCHORS, ENTITIES_EACH, WEIGHTS = 5, 100, 20
_DECIMALS = 4  # of a point's coordinates, which lie between −1 and 1
_MARKERS = ("o", "^", "s", "D", "v")
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f7f7f")


@dataclass(frozen=True)
class AssignmentSnapshot:
    """Hold codebook and assignment at one moment."""

    codebook: FloatArray
    indices: NDArray[np.int32]
    weights: FloatArray

    @classmethod
    def from_bytes(cls, data: bytes) -> AssignmentSnapshot:
        from safetensors.numpy import load

        arrays = load(data)
        return cls(arrays["codebook"], arrays["indices"], arrays["weights"])

    def rows(self, entities: NDArray[np.integer]) -> FloatArray:
        """Return S · E_meta for some entities (Eq. 1)."""
        composed: FloatArray = np.einsum("et,etd->ed", self.weights[entities], self.codebook[self.indices[entities]])
        return composed

    def anchors(self) -> NDArray[np.integer]:
        """Return the heaviest meta-embedding of every entity."""
        return np.take_along_axis(self.indices, self.weights.argmax(axis=1)[:, None], axis=1)[:, 0]

    def average_weights(self) -> NDArray[np.float64]:
        """Return the mean over all entities of the weight of each meta-embedding."""
        totals = np.bincount(self.indices.ravel(), self.weights.ravel().astype(np.float64), len(self.codebook))
        return totals / len(self.indices)


def case_studies(table: ResultTable, store: ResultStore, seed: int = 0) -> list[NamedPicture]:
    """Draw both figures, from the first seed's runs; nothing until all three moments are there.

    What they show is remembered with the study: a report cannot hold the states, and can hold this.
    """
    runs = [line.runs[0].key for line in table.lines if line.runs]
    shown = table.plan.get(DRAWING)
    if shown is None or shown["runs"] != runs:
        kept = {line.cell: store.state(line.runs[0].key) for line in table.lines if line.runs}
        states = {cell: AssignmentSnapshot.from_bytes(state) for cell, state in kept.items() if state is not None}
        if set(states) != {"at-start", "pretrained", "at-end"}:
            return []
        shown = {"runs": runs, **_shown(table, states, seed)}
        store.remember_drawing(table.study, table.dataset, table.effort, shown)
    return [_embeddings(table, shown), _weights(table, shown)]


def _shown(table: ResultTable, states: dict[str, AssignmentSnapshot], seed: int) -> dict[str, Any]:
    """Compute where t-SNE puts sampled entities and their meta-embeddings at each moment, and average weights."""
    rng = np.random.default_rng(seed)
    anchors, entities = sample(states["at-start"], rng)
    accuracy = {line.cell: line.runs[0].metrics["test"]["ndcg@20"] for line in table.lines}
    (last,) = (line.runs[0] for line in table.lines if line.cell == "at-end")
    after = f"after {sum('update' in epoch for epoch in last.curve)} updates"
    titles = {"at-start": "initialisation", "pretrained": "after pretraining", "at-end": after}
    moments = []
    for moment, title in titles.items():
        state = states[moment]
        placed = flatten(np.concatenate([state.rows(entities.ravel()), state.codebook[anchors]]), seed).round(_DECIMALS)
        of_anchors = placed[: entities.size].reshape(*entities.shape, 2)
        named = f"{title}, N@20 {accuracy[moment]:.4f}"
        metas = placed[entities.size :].tolist()
        moments.append({"title": named, "entities": of_anchors.tolist(), "meta-embeddings": metas})
    buckets = len(states["at-start"].codebook)
    buckets_shown = np.sort(rng.choice(buckets, min(WEIGHTS, buckets), replace=False))
    averages = {title: states[moment].average_weights() for moment, title in titles.items() if moment != "pretrained"}
    weights = {title: average[buckets_shown].tolist() for title, average in averages.items()}
    return {"moments": moments, "sampled": buckets_shown.tolist(), "weights": weights}


def sample(start: AssignmentSnapshot, rng: np.random.Generator) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Draw some meta-embeddings, and for each entities that have it as anchor at the start (anchors × entities)."""
    anchor_of = start.anchors()
    sizes = np.bincount(anchor_of, minlength=len(start.codebook))
    each = min(ENTITIES_EACH, int(np.sort(sizes)[-min(ANCHORS, len(sizes)) :].min()))
    able = np.flatnonzero(sizes >= max(each, 1))
    anchors = np.sort(rng.choice(able, min(ANCHORS, len(able)), replace=False))
    entities = np.stack([rng.choice(np.flatnonzero(anchor_of == anchor), each, replace=False) for anchor in anchors])
    return anchors, entities


def flatten(points: FloatArray, seed: int) -> NDArray[np.float64]:
    """Map by t-SNE to two dimensions, each scaled to [−1, 1]."""
    try:
        from openTSNE import TSNE
    except ImportError as error:
        raise MissingExtra("The case studies", "report", "legcf-studies") from error
    perplexity = max(2.0, min(30.0, (len(points) - 1) / 3))
    placed = np.asarray(
        TSNE(perplexity=perplexity, initialization="pca", random_state=seed, n_jobs=1).fit(points), dtype=np.float64
    )
    placed -= (placed.max(axis=0) + placed.min(axis=0)) / 2
    placed /= np.abs(placed).max(axis=0)
    return placed


def _embeddings(table: ResultTable, shown: dict[str, Any]) -> NamedPicture:
    figure = new_figure(10, 3.6)
    for axes, moment in zip(figure.subplots(1, 3), shown["moments"], strict=True):
        for colour, marker, own in zip(_COLOURS, _MARKERS, moment["entities"], strict=False):
            axes.scatter(*zip(*own, strict=True), s=14, marker=marker, color=colour, alpha=0.7, linewidths=0)
        for colour, point in zip(_COLOURS, moment["meta-embeddings"], strict=False):
            axes.scatter(*point, s=130, marker="X", color=colour, edgecolors="black", linewidths=1.1, zorder=3)
        axes.set_title(moment["title"], fontsize=9)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set(xlim=(-1.12, 1.12), ylim=(-1.12, 1.12), aspect="equal")
    of_anchors = shown["moments"][0]["entities"]
    caption = (
        f"t-SNE of {sum(map(len, of_anchors))} entities (one shape and colour for each anchor at the start) and of "
        f"their {len(of_anchors)} meta-embeddings (crosses)."
    )
    return name_of(table, "embeddings"), to_svg(figure), caption


def _weights(table: ResultTable, shown: dict[str, Any]) -> NamedPicture:
    sampled = shown["sampled"]
    figure = new_figure(10, 2.8)
    for axes, (title, weights) in zip(figure.subplots(1, 2), shown["weights"].items(), strict=True):
        axes.bar(range(len(sampled)), weights, color="#595959", width=0.75)
        axes.set_xticks(range(len(sampled)), [str(bucket) for bucket in sampled], rotation=90, fontsize=7)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("meta-embedding")
        plain(axes)
    figure.axes[0].set_ylabel("average weight")
    caption = f"Average assignment weight of {len(sampled)} sampled meta-embeddings, over all entities."
    return name_of(table, "weights"), to_svg(figure), caption
