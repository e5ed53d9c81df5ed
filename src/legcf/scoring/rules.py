# SPDX-License-Identifier: Apache-2.0
"""Apply the rules of a request: which items may be recommended, how many of one kind, how different from each other.

Numpy only. A filter names attributes and what they must be; all of its conditions hold for every recommended item:

    {"category": "tea"}                   equal
    {"category": ["tea", "coffee"]}       one of these
    {"price": {"min": 5, "max": 20}}      from … to, both included
    {"brand": {"not": ["A", "B"]}}        anything else, items without a brand too
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arguments import as_count
from legcf.core.arrays import FloatArray, Positions
from legcf.modelfile.attributes import Attributes, BadRule, Column, ItemMask
from legcf.ranking.topk_numpy import top_k

Best = tuple[NDArray[np.int64], FloatArray]
"""Positions and scores, best first."""
Order = Callable[[Callable[[int], Best], int], Best]
"""Give so many of the best in their final order, by a function that finds as many as it is asked for."""
Filter = Mapping[str, Any]
"""By attribute: a value, a list of values, or a mapping with any, not, min and max."""
_WORDS = ("any", "not", "min", "max")
_POOL = 10  # candidates per recommendation where diversity or caps decide; no measurement recorded
_NO_ITEMS = np.zeros(0, dtype=np.int64)
_GROWTH = 4  # times as many candidates are ranked after all of the last ones were refused; not measured


def allowed_items(attributes: Attributes | None, conditions: Filter) -> ItemMask:
    """Return which items satisfy all conditions."""
    if not isinstance(conditions, Mapping) or not all(isinstance(name, str) for name in conditions):
        raise BadRule(f"A filter names attributes, as {{'price': {{'max': 20}}}} does, and is not {conditions!r}.")
    masks = []
    for name, condition in conditions.items():
        column = _column(attributes, name)
        try:
            masks.append(_mask(column, condition))
        except BadRule as error:
            raise BadRule(f"The attribute {name[:100]!r} {error}") from error
    return reduce(np.logical_and, masks)


def _column(attributes: Attributes | None, name: str) -> Column:
    if attributes is None:
        raise BadRule("This model knows nothing of its items to filter by: export it with `--attributes`.")
    return attributes.column(name)


def _mask(column: Column, condition: Any) -> ItemMask:
    if not isinstance(condition, Mapping):
        return column.equal(condition if isinstance(condition, list | tuple) else [condition])
    if not condition or not set(condition) <= set(_WORDS):
        raise BadRule(f"is asked for in words that are not known: use {', '.join(_WORDS)}.")
    inside = np.ones(len(column), dtype=np.bool_)
    if "min" in condition or "max" in condition:
        inside &= column.between(condition.get("min"), condition.get("max"))
    if "any" in condition:
        inside &= _mask(column, condition["any"])
    if "not" in condition:
        inside &= ~_mask(column, condition["not"])
    return inside


class Caps:
    """Admit at most so many items of one value of an attribute: of one brand, say."""

    def __init__(self, attributes: Attributes | None, limits: Mapping[str, int]) -> None:
        self._limits: list[tuple[Callable[[int], Sequence[int]], int, dict[int, int]]] = [
            (_column(attributes, name).keys, as_count(limit, f"The cap of {name[:100]!r}"), {})
            for name, limit in limits.items()
        ]

    def take(self, item: int) -> bool:
        """Count the item and return True, or return False if one of its values has reached its limit."""
        counted: list[tuple[dict[int, int], int]] = []
        for keys_of, limit, counts in self._limits:
            for key in keys_of(item):
                if counts.get(key, 0) >= limit:
                    return False
                counted.append((counts, key))
        for counts, key in counted:
            counts[key] = counts.get(key, 0) + 1
        return True


@dataclass(frozen=True, eq=False)
class Candidates:
    """Hold what a list is chosen from: all scores, which are overwritten, and which items may be in it."""

    scores: FloatArray
    left_out: Positions
    inside: ItemMask | None
    order: Order | None = None

    def best(self, count: int, but: Positions = _NO_ITEMS) -> Best:
        """Return positions and scores of the best."""
        left_out = np.concatenate([self.left_out, but]) if len(but) else self.left_out

        def find(size: int) -> Best:
            return top_k(self.scores, size, left_out, self.inside)

        return find(count) if self.order is None else self.order(find, count)


def choose_list(
    candidates: Candidates,
    vectors_of: Callable[[Positions], FloatArray] | None,
    k: int,
    end: int,
    diversity: float,
    new_caps: Callable[[], Caps] | None,
) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the first `end` items by diversity and caps, of which k stand on a page.

    They are chosen among the best 10 k, or among more if caps leave too few for the first page; what follows when these
    are used up is in the order of scores. So the beginning of the list is the same for every `end`.
    """
    if new_caps is None:
        return candidates.best(end)
    size = _POOL * k
    while True:
        pool, values = candidates.best(size)
        caps, vectors = new_caps(), None if vectors_of is None else vectors_of(pool)
        taken = choose(pool.tolist(), values, vectors, end, diversity, caps)
        if len(taken) >= k or len(pool) < size:
            break
        size *= _POOL
    if len(taken) == end or len(pool) < size:
        return pool[taken], values[taken]
    rest, rest_values = candidates.best(len(candidates.scores), pool)
    more = choose(rest.tolist(), rest_values, None, end - len(taken), 0.0, caps)
    return np.append(pool[taken], rest[more]), np.append(values[taken], rest_values[more])


def choose(
    items: Sequence[int], scores: FloatArray, vectors: FloatArray | None, k: int, diversity: float, caps: Caps
) -> list[int]:
    """Return indices of up to k of the items that the caps admit; the items come best first.

    Without diversity they are taken in their order, in one pass. With it the next one is chosen by maximal marginal
    relevance (Carbonell and Goldstein 1998): the highest (1 − diversity) · score − diversity · likeness to the most
    alike that was taken; scores are scaled to 0 … 1, likeness is the cosine of the `vectors`.
    """
    if not diversity or vectors is None:
        return list(islice((index for index, item in enumerate(items) if caps.take(item)), k))
    span = float(scores[0] - scores[-1]) if len(scores) else 0.0
    relevance = (scores - scores[-1]) / np.float32(span) if span > 0 else np.ones_like(scores)
    relevance = (1 - diversity) * relevance
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    likeness = np.full(len(items), -1, dtype=np.float32)  # nothing was taken: all are equally unlike it
    taken: list[int] = []
    while len(taken) < k and (index := _take_highest(items, relevance, diversity * likeness, caps)) is not None:
        taken.append(index)
        np.maximum(likeness, unit @ unit[index], out=likeness)
    return taken


def _take_highest(items: Sequence[int], relevance: FloatArray, penalty: FloatArray, caps: Caps) -> int | None:
    """Return the index of the highest relevance − penalty that the caps admit; None if they admit no item.

    Whatever was looked at gets a relevance of −∞: a cap that refuses an item once refuses it ever after, so all calls
    together ask the caps once for each item.
    """
    count = 1
    while len(ranked := top_k(relevance - penalty, count, _NO_ITEMS)[0]):
        for index in ranked.tolist():
            relevance[index] = -np.inf
            if caps.take(items[index]):
                return int(index)
        count *= _GROWTH
    return None
