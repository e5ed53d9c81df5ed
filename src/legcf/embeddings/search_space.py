# SPDX-License-Identifier: Apache-2.0
"""Declare what a search may choose from, beside each method: {"section.key": OneOf}.

What the other settings leave without effect is not in a space. Steps are factors of two around the defaults; finer ones
were not measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from legcf.core.config import RankingConfig, RunConfig


@dataclass(frozen=True)
class OneOf:
    """Allow any of these values."""

    values: tuple[Any, ...]

    def including(self, value: Any) -> "OneOf":
        return self if value in self.values else OneOf((value, *self.values))


Space = Mapping[str, OneOf]

PAPER_GRID: Space = {
    # Liang et al., SIGIR 2024, section 4.1.4.
    "training.learning_rate": OneOf((1e-2, 1e-3, 1e-4)),
    "training.l2": OneOf((0.0, 5e-4, 1e-3, 5e-3, 1e-2)),
}

FACTORISATION: Space = {
    "method.als.alpha": OneOf((2.5, 5.0, 10.0, 20.0, 40.0)),
    "method.als.regularisation": OneOf((1.25, 2.5, 5.0, 10.0, 20.0)),
}


def common_space(config: RunConfig) -> Space:
    """Return what any method leaves to a search: the paper's grid where it is trained, and settings of its lists."""
    if config.ranking.search_representation:  # vectors, training and lists are selected on validation by the run itself
        return {
            "ranking.list_bits": OneOf((2, 3, 4, 5)),
            "ranking.popularity_weight": OneOf((0.0, 0.125, 0.25, 0.5)),
        }
    return {**(PAPER_GRID if config.training.epochs else {}), **_of_lists(config.ranking)}


def _of_lists(ranking: RankingConfig) -> Space:
    if not ranking.has_lists or ranking.fit_lists:
        return {}
    weight: Space = {} if ranking.fit_weight else {"ranking.list_weight": OneOf((0.125, 0.25, 0.5, 1.0))}
    return {
        "ranking.list_ridge": OneOf((1.0, 2.0, 4.0, 8.0)),
        "ranking.list_user_power": OneOf((0.0, 0.5, 1.0)),
        **weight,
    }
