# SPDX-License-Identifier: Apache-2.0
"""Rules of a request: which items may be recommended, how many of one kind, how different from each other. Numpy only.

A filter names attributes and what they must be; all of its conditions hold for every item that is recommended:

    {"category": "tea"}                   equal
    {"category": ["tea", "coffee"]}       one of these
    {"price": {"min": 5, "max": 20}}      from … to, both included
    {"brand": {"not": ["A", "B"]}}        anything else, items without a brand too
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.modelfile.attributes import Attributes, BadRule, Column, ItemMask

Filter = Mapping[str, Any]
"""By attribute: a value, a list of values, or a mapping with any, not, min and max."""
_WORDS = ("any", "not", "min", "max")


def allowed_items(attributes: Attributes | None, wanted: Filter) -> ItemMask:
    """Which items satisfy all conditions."""
    masks = [_satisfying(name, _column(attributes, name), condition) for name, condition in wanted.items()]
    inside = masks[0]
    for mask in masks[1:]:
        inside &= mask
    return inside


def _column(attributes: Attributes | None, name: str) -> Column:
    if attributes is None:
        raise BadRule("This model knows nothing of its items to filter by: export it with `--attributes`.")
    return attributes.column(name)


def _satisfying(name: str, column: Column, condition: Any) -> ItemMask:
    try:
        return _mask(column, condition)
    except BadRule as error:
        raise BadRule(f"The attribute {name[:100]!r} {error}") from error


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
    """Counts how many of each value were taken: at most so many of one brand."""

    def __init__(self, attributes: Attributes | None, most: Mapping[str, int]) -> None:
        self._columns = [(_column(attributes, name), count) for name, count in most.items()]
        self._taken: list[dict[int, int]] = [{} for _ in self._columns]

    def take(self, item: int) -> bool:
        """Whether there is room for the item, which then has it. An item of several values needs room in all."""
        keys = [column.keys(item) for column, _ in self._columns]
        for (_, most), taken, own in zip(self._columns, self._taken, keys, strict=True):
            if any(taken.get(key, 0) >= most for key in own):
                return False
        for taken, own in zip(self._taken, keys, strict=True):
            for key in own:
                taken[key] = taken.get(key, 0) + 1
        return True


def choose(
    items: Sequence[int], scores: FloatArray, vectors: FloatArray | None, k: int, diversity: float, caps: Caps
) -> list[int]:
    """Places of up to k of the items, which come best first: maximal marginal relevance (Carbonell and Goldstein 1998).

    The next one is the best by (1 − diversity) · score − diversity · likeness to the most alike that was taken; scores
    are brought to 0 … 1, likeness is the cosine of the `vectors`, which are needed for a diversity above 0 alone.
    """
    span = float(scores[0] - scores[-1]) if len(scores) else 0.0
    relevance = (scores - scores[-1]) / np.float32(span) if span > 0 else np.ones_like(scores)
    worth = (1 - diversity) * relevance
    alike = np.zeros(len(items), dtype=np.float32)
    unit = None
    if diversity and vectors is not None:
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        alike -= 1  # nothing was taken: all are equally unlike it
    taken: list[int] = []
    left = np.ones(len(items), dtype=np.bool_)
    while len(taken) < k and left.any():
        place = int(np.where(left, worth - diversity * alike, -np.inf).argmax())
        left[place] = False
        if caps.take(items[place]):
            taken.append(place)
            if unit is not None:
                np.maximum(alike, unit @ unit[place], out=alike)
    return taken
