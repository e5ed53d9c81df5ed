# SPDX-License-Identifier: Apache-2.0
"""Declare what a search may choose from, beside each method: {"section.key": OneOf or Range}."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OneOf:
    """Allow any of these values."""

    values: tuple[Any, ...]

    def including(self, value: Any) -> "OneOf":
        return self if value in self.values else OneOf((value, *self.values))


@dataclass(frozen=True)
class Range:
    """Allow any number between two, on a logarithmic scale if `log`."""

    low: float
    high: float
    log: bool = False

    def including(self, value: float) -> "Range":
        return Range(min(self.low, value), max(self.high, value), self.log)


Space = Mapping[str, OneOf | Range]

PAPER_GRID: Space = {
    # Liang et al., SIGIR 2024, section 4.1.4.
    "training.learning_rate": OneOf((1e-2, 1e-3, 1e-4)),
    "training.l2": OneOf((0.0, 5e-4, 1e-3, 5e-3, 1e-2)),
}
