# SPDX-License-Identifier: Apache-2.0
"""Explain why an item was recommended: in a sentence, by the user's items that speak for it, by what both share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legcf.core.arrays import FloatArray, Positions
from legcf.data.ids import ExternalId
from legcf.scoring.foldin import UserProfile
from legcf.scoring.scorer import Scored, Scorer

_MAX_EXAMPLES = 4  # items that show what a meta-embedding stands for
_MAX_REASONS = 3  # meta-embeddings, and items of the user
_MIN_SHARE = 0.3  # of an item's length that a meta-embedding must carry for the item to be an example; not measured
_OPENINGS = {True: "Popular with people who have", False: "Because you have"}  # by whether lists say most of it
_MIN_SECOND = 0.4  # of what the first item adds: then the second is named beside it; not measured


@dataclass(frozen=True)
class SharedMeta:
    """Hold a meta-embedding of the item's code: what it adds to the score, and well-known items it stands for."""

    meta: int
    contribution: float
    examples: list[Scored]


@dataclass(frozen=True)
class Explanation:
    """Hold why one item was recommended."""

    item: ExternalId
    score: float
    list_score: float
    """What the lists of the user's items add to the score."""
    shared: list[SharedMeta]
    because: list[Scored]
    text: str  # for people who know nothing of vectors


def explain(scorer: Scorer, profile: UserProfile, items: Sequence[int]) -> list[Explanation]:
    """Take each score apart: all terms of an item's code, its bias and what lists add sum up to the score."""
    model = scorer.model
    if not len(items):
        return []
    positions = np.asarray(items)
    targets = model.item_rows.vectors(positions)
    scores = targets @ profile.vector
    if model.item_bias is not None:
        scores = scores + model.item_bias[positions]
    by_vectors = scorer.solver.contributions(profile.history, targets, profile.relative)
    by_lists = np.zeros_like(by_vectors)
    if model.lists is not None:
        by_lists = model.lists.parts(profile.history, positions, profile.relative)
    list_scores, parts = by_lists.sum(axis=0), by_vectors + by_lists
    for_lists = 2 * list_scores > parts.sum(axis=0)  # the lists say more than the vectors
    shared = _shared(scorer, profile.vector, positions)
    because = _because(scorer, profile.history, positions, parts)
    speakers = because
    if for_lists.any():
        speakers = _because(scorer, profile.history, positions, np.where(for_lists, by_lists, parts))
    sentences = map(_sentence, [_OPENINGS[said] for said in for_lists.tolist()], speakers, shared)
    ids, totals = model.items.external(positions), (scores + list_scores).tolist()
    return list(map(Explanation, ids, totals, list_scores.tolist(), shared, because, sentences))


def explain_popular(items: Sequence[Scored]) -> list[Explanation]:
    """Explain what is recommended to those of whom nothing is known: what most people like."""
    return [Explanation(entry.id, entry.score, 0.0, [], [], "Popular with everybody.") for entry in items]


def _sentence(opening: str, items: Sequence[Scored], shared: Sequence[SharedMeta]) -> str:
    if items:
        named = [entry.name for entry in items[:2] if entry.score >= _MIN_SECOND * items[0].score]
        return f"{opening} {' and '.join(named)}."
    alike = [entry.name for entry in shared[0].examples[:2]] if shared else []
    return f"For people who like {' and '.join(alike)}." if alike else "It fits this taste."


def _shared(scorer: Scorer, vector: FloatArray, positions: Positions) -> list[list[SharedMeta]]:
    """Return, for each item, the meta-embeddings of its code that add most."""
    rows = scorer.model.item_rows.codes
    if rows is None:
        return [[] for _ in positions]
    columns, weights = rows.columns[positions], rows.weights_of(positions)
    parts = weights * (rows.codebook[columns] @ vector)
    order = np.argsort(-parts, axis=1, kind="stable")[:, :_MAX_REASONS]
    best = (np.take_along_axis(values, order, axis=1).tolist() for values in (columns, parts, weights >= 0))
    return [
        [
            SharedMeta(meta, part, examples(scorer, meta, sign))
            for meta, part, sign in zip(*item, strict=True)
            if part > 0
        ]
        for item in zip(*best, strict=True)
    ]


def _because(scorer: Scorer, history: Positions, positions: Positions, parts: FloatArray) -> list[list[Scored]]:
    """Return, for each item, the others of the history that add most to its score (`parts`: history × items)."""
    reasons = min(_MAX_REASONS, len(history))
    if not reasons:
        return [[] for _ in positions]
    rest = np.where(history[:, None] == positions, np.float32(-np.inf), parts).T.copy()
    best, every = np.empty((len(positions), reasons), dtype=np.int64), np.arange(len(positions))
    values = np.empty(best.shape, dtype=np.float32)
    for reason in range(reasons):  # of equals the first; to sort a long history takes far longer
        best[:, reason] = rest.argmax(axis=1)
        values[:, reason] = rest[every, best[:, reason]]
        rest[every, best[:, reason]] = -np.inf
    items_of_reasons, model = history[best].ravel(), scorer.model
    entries = zip(
        model.items.external(items_of_reasons), items_of_reasons.tolist(), values.ravel().tolist(), strict=True
    )
    named = [Scored(identifier, part, model.item_name(item)) for identifier, item, part in entries]
    return [
        [entry for entry in named[start : start + reasons] if entry.score > 0]
        for start in range(0, len(named), reasons)
    ]


def examples(scorer: Scorer, meta: int, positive: bool = True) -> list[Scored]:
    """Find items that lean most on a meta-embedding (or against it), the better known ones first."""
    key, rows, model = (meta, bool(positive)), scorer.model.item_rows.codes, scorer.model
    if key in scorer.examples:
        return scorer.examples[key]
    assert rows is not None
    items, terms = np.nonzero(rows.columns == meta)
    weights = rows.weights_of(items)[np.arange(len(items)), terms] * (1 if positive else -1)
    share = weights / scorer.item_norms[items] * np.linalg.norm(rows.codebook[meta])
    leaning = np.where(share > _MIN_SHARE, share * model.popularity[items], -1.0)
    order = np.argsort(-leaning, kind="stable")[:_MAX_EXAMPLES]
    order = order[share[order] > _MIN_SHARE]
    ids = model.items.external(items[order])
    best_known = zip(ids, items[order].tolist(), weights[order].tolist(), strict=True)
    found = [Scored(identifier, weight, model.item_name(item)) for identifier, item, weight in best_known]
    return scorer.examples.setdefault(key, found)
