# SPDX-License-Identifier: Apache-2.0
"""Read budgets: how many stored values or bytes a method may have, as a number or as the size of a LEGCF model."""

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field, field_validator

from legcf.core.config import MethodConfig, parse_bytes
from legcf.core.errors import UserError

if TYPE_CHECKING:
    from legcf.embeddings.layer import Layer

T = TypeVar("T")
_LEGCF = {"c": 500, "d": 128, "t": 2}
_HOW = (
    'a number of stored values, "legcf" (c·d + t·N with c = 500, d = 128, t = 2), or those named: "legcf:c=1000,t=4";'
    ' for some methods also bytes: "800kB"'
)
_FLOAT_BYTES = 4


class Budgeted(MethodConfig):
    """Hold the option of every layer whose sizes can follow from a budget."""

    budget: int | str | None = Field(None, description=_HOW)

    @field_validator("budget")
    @classmethod
    def _understood(cls, budget: int | str | None) -> int | str | None:
        if isinstance(budget, int):
            if budget < 1:
                raise ValueError("a budget is at least 1")
        elif budget is not None and bytes_of_budget(budget) is None:
            _legcf_sizes(budget)
        return budget


def stored_values(budget: int | str, num_entities: int) -> int:
    """Return the budget in stored values, the paper's count."""
    if isinstance(budget, int):
        return budget
    if bytes_of_budget(budget) is not None:
        raise UserError(
            f"method.budget = {budget} is in bytes, which this method cannot find its sizes by: name values."
        )
    sizes = _legcf_sizes(budget)
    return sizes["c"] * sizes["d"] + sizes["t"] * num_entities


def bytes_of_budget(budget: int | str | None) -> int | None:
    """Return a budget in bytes, such as 800kB; None where it is in values."""
    if not isinstance(budget, str) or not re.fullmatch(r"[0-9.]+ ?[kMG]?i?B", budget):
        return None
    return parse_bytes(budget)


def widest_within(layer: type["Layer[Any]"], config: MethodConfig, shape: tuple[int, int], most: int) -> int:
    """Return the largest `dim` up to `most` that the budget allows for `shape` (users, items), 0 if it allows none."""

    def is_refused(dim: int) -> bool:
        try:
            layer.sized(config.model_copy(update={"dim": dim}), *shape)
        except UserError:
            return True
        return False

    return bisect_left(range(1, most + 1), True, key=is_refused)  # sizes grow with the width


def without_budget(config: MethodConfig) -> MethodConfig:
    """Return settings whose sizes stay as they are: a budget would find others for other numbers of users and items."""
    return config.model_copy(update={"budget": None}) if isinstance(config, Budgeted) else config


def solved(size: T | None) -> T:
    """Return a size that may be left to the data, and has been filled in since (`EmbeddingLayer.sized`)."""
    assert size is not None
    return size


def width_within(budget: int | str | None, rows: int, num_entities: int, otherwise: int) -> int:
    """Return how wide a table of so many rows may be; without a budget it is `otherwise`."""
    if budget is None:
        return otherwise
    in_bytes = bytes_of_budget(budget)
    allowed = stored_values(budget, num_entities) if in_bytes is None else in_bytes // _FLOAT_BYTES
    if allowed < rows:
        raise too_small(allowed, rows)
    return allowed // rows


def too_small(budget: int, least: int, unit: str = "stored values") -> UserError:
    return UserError(f"method.budget = {budget:,} {unit} are too few: {least:,} are the least here.")


def _legcf_sizes(text: str) -> dict[str, int]:
    if not re.fullmatch(r"legcf(:[cdt]=[1-9]\d*(,[cdt]=[1-9]\d*)*)?", text):
        raise ValueError(f"give {_HOW}")
    named = (part.split("=") for part in text.partition(":")[2].split(",") if part)
    return _LEGCF | {name: int(value) for name, value in named}
