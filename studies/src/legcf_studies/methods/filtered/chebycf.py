# SPDX-License-Identifier: Apache-2.0
"""Filter histories by a plateau over the graph's frequencies, interpolated by Chebyshev polynomials (ChebyCF).

Kim et al., "Graph Spectral Filtering with Chebyshev Interpolation for Recommendation", SIGIR 2025. The plateau is
h(x) = ½ − ½ sign(x) |x|^φ, and an ideal low-pass filter of η singular vectors is added with weight α.
"""

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from legcf.training.registry import Method
from legcf.training.stage import closed_form
from legcf_studies.methods.filtered.filtered import Coefficients, FilterConfig, Filtered, settings

_DECIMALS = 3  # that the release rounds the plateau and its arguments to


class ChebyCfConfig(FilterConfig):
    name: Literal["chebycf"] = "chebycf"
    order: int = Field(
        8, ge=1, description="K, the degree of the polynomial: products with the graph and its transpose"
    )
    flatness: float = Field(1.5, gt=0, description="φ, how flat the plateau is between low and high frequencies")
    ideal_weight: float = Field(0.2, ge=0, description="α, the weight of what the singular vectors keep")
    popularity_power: float = Field(0.4, ge=0, description="β, how much more popular items are shown")


class ChebyCf(Filtered[ChebyCfConfig]):
    Config = ChebyCfConfig
    summary = (
        "a plateau filter of the graph by Chebyshev interpolation, and an ideal low-pass filter; nothing is learned"
    )
    citation = "Kim et al., Graph Spectral Filtering with Chebyshev Interpolation for Recommendation, SIGIR 2025"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": settings(),  # the release's settings for Gowalla
        "paper-amazon-book": settings(flatness=10.0, popularity_power=0.0),
        # Of eight settings the best by validation NDCG@20 on LastFM: 0.1607, where those of `paper` have 0.1529.
        "default": settings(popularity_power=0.2, dim=128),
    }

    @property
    def powers(self) -> tuple[float, float]:
        return self.config.popularity_power, self.config.popularity_power

    def coefficients(self) -> Coefficients:
        return interpolated(self.config.order, self.config.flatness), (self.config.ideal_weight,)


CHEBYCF = Method(ChebyCf, closed_form)


def interpolated(order: int, flatness: float) -> tuple[float, ...]:
    """Return the plateau in Chebyshev polynomials, as the release has it.

    It is read at the extrema of the last polynomial and taken for the values at the nodes of the next, in this order.
    """
    terms = order + 1
    extrema = np.round(np.cos(np.arange(order, -1, -1) / order * np.pi), _DECIMALS)
    plateau = np.round(0.5 - 0.5 * np.sign(extrema) * np.abs(extrema) ** flatness, _DECIMALS)
    nodes = (terms - 0.5 - np.arange(terms)) / terms * np.pi
    coefficients = np.cos(np.arange(terms)[:, None] * nodes) @ plateau * (2 / terms)
    coefficients[0] /= 2
    return tuple(coefficients.tolist())
