# SPDX-License-Identifier: Apache-2.0
"""Explain why an item was recommended: in a sentence, by the user's items that speak for it, by what both share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.data.ids import ExternalId
from legcf.scoring.foldin import UserProfile
from legcf.scoring.scorer import Scored, Scorer

_MAX_EXAMPLES = 4  # items that show what a meta-embedding stands for
_MAX_REASONS = 3  # meta-embeddings, and items of the user
_MIN_SHARE = 0.3  # of an item's length that a meta-embedding must carry for the item to be an example; not measured
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
    list_scores = by_lists.sum(axis=0)
    explanations = []
    for column, item in enumerate(items):
        parts = by_vectors[:, column] + by_lists[:, column]
        shared = _shared(scorer, profile.vector, item)
        because = _because(scorer, profile, item, parts)
        if 2 * list_scores[column] > parts.sum():
            speakers = _because(scorer, profile, item, by_lists[:, column])
            text = _sentence("Popular with people who have", speakers, shared)
        else:
            text = _sentence("Because you have", because, shared)
        score, identifier = float(scores[column] + list_scores[column]), model.items.external([item])[0]
        explanations.append(Explanation(identifier, score, float(list_scores[column]), shared, because, text))
    return explanations


def explain_popular(items: Sequence[Scored]) -> list[Explanation]:
    """Explain what is recommended to those of whom nothing is known: what most people like."""
    return [Explanation(entry.id, entry.score, 0.0, [], [], "Popular with everybody.") for entry in items]


def _sentence(opening: str, items: Sequence[Scored], shared: Sequence[SharedMeta]) -> str:
    if items:
        named = [entry.name for entry in items[:2] if entry.score >= _MIN_SECOND * items[0].score]
        return f"{opening} {' and '.join(named)}."
    alike = [entry.name for entry in shared[0].examples[:2]] if shared else []
    return f"For people who like {' and '.join(alike)}." if alike else "It fits this taste."


def _shared(scorer: Scorer, vector: FloatArray, item: int) -> list[SharedMeta]:
    rows = scorer.model.item_rows.codes
    if rows is None:
        return []
    columns, weights = rows.columns[item], rows.weights_of(np.array([item]))[0]
    parts = weights * (rows.codebook[columns] @ vector)
    order = [k for k in np.argsort(-parts, kind="stable")[:_MAX_REASONS].tolist() if parts[k] > 0]
    return [
        SharedMeta(int(columns[k]), float(parts[k]), examples(scorer, int(columns[k]), weights[k] >= 0)) for k in order
    ]


def _because(scorer: Scorer, profile: UserProfile, item: int, parts: FloatArray) -> list[Scored]:
    model, history = scorer.model, profile.history
    order = [
        k for k in np.argsort(-parts, kind="stable")[: _MAX_REASONS + 1].tolist() if parts[k] > 0 and history[k] != item
    ]
    ids = model.items.external(history[order[:_MAX_REASONS]])
    pairs = zip(ids, order[:_MAX_REASONS], strict=True)
    return [Scored(identifier, float(parts[k]), model.item_name(int(history[k]))) for identifier, k in pairs]


def examples(scorer: Scorer, meta: int, positive: bool = True) -> list[Scored]:
    """Find items that lean most on a meta-embedding (or against it), the better known ones first."""
    key = (meta, bool(positive))
    if key not in scorer.examples:
        scorer.examples[key] = _find_examples(scorer, meta, positive)
    return scorer.examples[key]


def _find_examples(scorer: Scorer, meta: int, positive: bool) -> list[Scored]:
    rows, model = scorer.model.item_rows.codes, scorer.model
    assert rows is not None
    items, terms = np.nonzero(rows.columns == meta)
    weights = rows.weights_of(items)[np.arange(len(items)), terms] * (1 if positive else -1)
    share = weights / scorer.item_norms[items] * np.linalg.norm(rows.codebook[meta])
    order = np.argsort(-np.where(share > _MIN_SHARE, share * model.popularity[items], -1.0), kind="stable")[
        :_MAX_EXAMPLES
    ]
    order = order[share[order] > _MIN_SHARE]
    ids = model.items.external(items[order])
    best_known = zip(ids, items[order].tolist(), weights[order].tolist(), strict=True)
    return [Scored(identifier, weight, model.item_name(item)) for identifier, item, weight in best_known]
