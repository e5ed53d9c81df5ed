# SPDX-License-Identifier: Apache-2.0
"""Define methods that rank by a filter of the item graph: singular vectors are solved, nothing is learned.

Rows are the leading right singular vectors of the degree-normalised pairs. Users are their histories, but ranking needs
the training graph, so there is a run folder and no model file.
"""

from abc import abstractmethod
from typing import Any, ClassVar, TypeVar

import numpy as np
from pydantic import Field

from legcf.core.arrays import FloatArray
from legcf.data.interactions import Interactions
from legcf.embeddings.baselines.rowless import ROWLESS_SETTINGS
from legcf.embeddings.budget import Budgeted, width_within
from legcf.embeddings.layer import SolvedLayer
from legcf.factorisation.spectral import singular_vectors
from legcf_studies.methods.filtered.graph_filter import GraphFilter

# Of the power iteration, since filters were published with exact vectors. Not measured beside others.
_ROUNDS = 12
FILTER_SETTINGS = ROWLESS_SETTINGS
"""What the presets of such methods share: histories, and nothing to train."""
Coefficients = tuple[tuple[float, ...], tuple[float, ...]]


class FilterConfig(Budgeted):
    """Hold the options of such methods."""

    dim: int = Field(512, ge=1, description="singular vectors of the ideal low-pass filter, unless a budget decides it")


F = TypeVar("F", bound=FilterConfig)


class Filtered(SolvedLayer[F]):
    """Hold V, items × dim; users have no rows."""

    comparison_rows: ClassVar[None] = None
    learned = ("weight",)

    def __init__(self, config: F, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.arrays["weight"] = np.zeros((num_items, self.config.dim), np.float32)

    @classmethod
    def sized(cls, config: F, num_users: int, num_items: int) -> F:
        width = width_within(config.budget, num_items, num_users + num_items, config.dim)
        return config.model_copy(update={"dim": min(width, max(num_items, 1))})

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        vectors = singular_vectors(train, self.config.dim, rng, _ROUNDS)
        self.arrays["weight"][:, : vectors.shape[1]] = vectors

    def table(self) -> FloatArray:
        return np.concatenate([np.zeros((self.num_users, self.config.dim), np.float32), self.arrays["weight"]])

    @abstractmethod
    def coefficients(self) -> Coefficients:
        """Return p and q of the filter in Chebyshev polynomials (`graph_filter.py`)."""

    @property
    @abstractmethod
    def powers(self) -> tuple[float, float]:
        """Return b and g, the powers of the items' degrees."""

    def item_filter(self, train: Interactions) -> GraphFilter:
        return GraphFilter.of(train, self.arrays["weight"], self.coefficients(), *self.powers)


def settings(**method: Any) -> dict[str, Any]:
    """Return a preset with these settings of the method."""
    return {**FILTER_SETTINGS, "method": method}
