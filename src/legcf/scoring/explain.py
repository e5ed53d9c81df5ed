# SPDX-License-Identifier: Apache-2.0
"""Why an item was recommended: in a sentence, by the user's items that speak for it, by what user and item share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.data.ids import ExternalId
from legcf.scoring.profile import UserProfile
from legcf.scoring.scorer import Scored, Scorer

_EXAMPLES = 4
_LEAST_SHARE = 0.3  # of an item's length that a meta-embedding must carry for the item to be an example of it
_MOST = 3
_WORTH_NAMING = 0.4  # of what the first item adds: then the second is named beside it


@dataclass(frozen=True)
class SharedMeta:
    """A meta-embedding in the item's code: what it adds to the score, and well-known items it stands for."""

    meta: int
    contribution: float
    examples: list[Scored]


@dataclass(frozen=True)
class Explanation:
    item: ExternalId
    score: float
    list_score: float
    """What the lists of the user's items add to the score."""
    shared: list[SharedMeta]
    because: list[Scored]
    text: str  # for people who know nothing of vectors


def explain(scorer: Scorer, taste: UserProfile, items: Sequence[int]) -> list[Explanation]:
    """The parts of each score. All terms of an item's code, its bias and what lists add sum up to the score."""
    model = scorer.model
    if not len(items):
        return []
    wanted = np.asarray(items)
    targets = model.item_rows.vectors(wanted)
    scores = targets @ taste.vector
    if model.item_bias is not None:
        scores = scores + model.item_bias[wanted]
    own = scorer.solver.contributions(taste.history, targets, taste.relative)
    near = np.zeros_like(own) if model.lists is None else model.lists.parts(taste.history, wanted, taste.relative)
    added = near.sum(axis=0)
    explanations = []
    for place, item in enumerate(items):
        parts, by_others = own[:, place] + near[:, place], near[:, place]
        shared = _shared(scorer, taste.vector, item)
        because = _because(scorer, taste, item, parts)
        if 2 * added[place] > parts.sum():
            text = _sentence("Popular with people who have", _because(scorer, taste, item, by_others), shared)
        else:
            text = _sentence("Because you have", because, shared)
        score, identifier = float(scores[place] + added[place]), model.items.external([item])[0]
        explanations.append(Explanation(identifier, score, float(added[place]), shared, because, text))
    return explanations


def explain_popular(found: Sequence[Scored]) -> list[Explanation]:
    """Of those who get what most people like, since nothing is known of them."""
    return [Explanation(entry.id, entry.score, 0.0, [], [], "Popular with everybody.") for entry in found]


def _sentence(opening: str, items: Sequence[Scored], shared: Sequence[SharedMeta]) -> str:
    if items:
        named = [entry.name for entry in items[:2] if entry.score >= _WORTH_NAMING * items[0].score]
        return f"{opening} {' and '.join(named)}."
    alike = [entry.name for entry in shared[0].examples[:2]] if shared else []
    return f"For people who like {' and '.join(alike)}." if alike else "It fits this taste."


def _shared(scorer: Scorer, vector: FloatArray, item: int) -> list[SharedMeta]:
    rows = scorer.model.item_rows.codes
    if rows is None:
        return []
    columns, weights = rows.columns[item], rows.weights_of(np.array([item]))[0]
    parts = weights * (rows.codebook[columns] @ vector)
    order = [k for k in np.argsort(-parts, kind="stable")[:_MOST].tolist() if parts[k] > 0]
    return [
        SharedMeta(int(columns[k]), float(parts[k]), examples(scorer, int(columns[k]), weights[k] >= 0)) for k in order
    ]


def _because(scorer: Scorer, taste: UserProfile, item: int, parts: FloatArray) -> list[Scored]:
    model, history = scorer.model, taste.history
    order = [k for k in np.argsort(-parts, kind="stable")[: _MOST + 1].tolist() if parts[k] > 0 and history[k] != item]
    ids = model.items.external(history[order[:_MOST]])
    pairs = zip(ids, order[:_MOST], strict=True)
    return [Scored(identifier, float(parts[k]), model.item_name(int(history[k]))) for identifier, k in pairs]


def examples(scorer: Scorer, meta: int, positive: bool = True) -> list[Scored]:
    """Items that lean most on a meta-embedding (or against it), the better known ones first."""
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
    order = np.argsort(-np.where(share > _LEAST_SHARE, share * model.popularity[items], -1.0), kind="stable")[
        :_EXAMPLES
    ]
    order = order[share[order] > _LEAST_SHARE]
    ids = model.items.external(items[order])
    chosen = zip(ids, items[order].tolist(), weights[order].tolist(), strict=True)
    return [Scored(identifier, weight, model.item_name(item)) for identifier, item, weight in chosen]
