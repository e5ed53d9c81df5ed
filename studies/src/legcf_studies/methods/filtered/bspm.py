# SPDX-License-Identifier: Apache-2.0
"""Blur histories over the item graph, then sharpen them again: two differential equations, solved in few steps (BSPM).

Choi et al., "Blurring-Sharpening Process Models for Collaborative Filtering", SIGIR 2023. With P = R̃ᵀR̃ a step of
blurring gives P r, and sharpening is dx/dt = −P x. Solvers in fixed steps of a linear equation are polynomials of P:
one step of length h is 1 − hP (Euler) or the first five terms of exp(−hP) (Runge–Kutta).
"""

import math
from typing import Any, ClassVar, Literal

from numpy.polynomial import Chebyshev, Polynomial
from pydantic import Field

from legcf.training.registry import Method
from legcf.training.stage import closed_form
from legcf_studies.methods.filtered.filtered import Coefficients, FilterConfig, Filtered, settings

_ORDERS = {"euler": 1, "rk4": 4}


class BspmConfig(FilterConfig):
    name: Literal["bspm"] = "bspm"
    dim: int = Field(448, ge=1, description="singular vectors of the ideal low-pass filter, unless a budget decides it")
    solver: Literal["euler", "rk4"] = Field("rk4", description="how sharpening is solved")
    steps: int = Field(1, ge=1, description="K_s, steps of the solver")
    time: float = Field(2.5, ge=0, description="T_s, how long is sharpened")
    ideal_weight: float = Field(0.2, ge=0, description="β, the weight of what the singular vectors keep")
    sharpen_ideal: bool = Field(True, description="sharpen what the singular vectors keep as well (final sharpening)")
    average: bool = Field(False, description="take the mean over blurring and the steps of sharpening, not their end")


class Bspm(Filtered[BspmConfig]):
    Config = BspmConfig
    summary = "histories blurred over the graph and sharpened again, and an ideal low-pass filter; nothing is learned"
    citation = "Choi et al., Blurring-Sharpening Process Models for Collaborative Filtering, SIGIR 2023"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": settings(),  # the release's settings for Gowalla
        "paper-yelp2018": settings(solver="euler", time=1.2, average=True, ideal_weight=0.3, dim=384),
        "paper-amazon-book": settings(steps=2, time=2.2, ideal_weight=0.0),
        # Of six settings the best by validation NDCG@20 on LastFM: 0.1616, where those of `paper` have 0.1336.
        "default": settings(solver="euler", time=1.2, average=True, ideal_weight=0.3, dim=64),
    }

    @property
    def powers(self) -> tuple[float, float]:
        return 0.0, 0.5

    def coefficients(self) -> Coefficients:
        config = self.config
        graph = Polynomial([0, 1])
        step = sum(
            (-graph * config.time / config.steps) ** k / math.factorial(k) for k in range(_ORDERS[config.solver] + 1)
        )
        sharpened = [step ** (number + 1) for number in range(config.steps)]
        of_blurred, of_ideal = sharpened[-1], sharpened[-1] if config.sharpen_ideal else Polynomial([1])
        if config.average:
            of_blurred = (1 + sum(sharpened)) / (1 + config.steps)
            of_ideal = sum(sharpened) / (1 + config.steps) if config.sharpen_ideal else of_ideal
        return _in_chebyshev(of_blurred * graph), _in_chebyshev(config.ideal_weight * of_ideal)


BSPM = Method(Bspm, closed_form)


def _in_chebyshev(polynomial: Polynomial) -> tuple[float, ...]:
    """Return a polynomial of P in Chebyshev polynomials of L = 1 − 2P."""
    of_laplacian = polynomial(Polynomial([0.5, -0.5]))
    return tuple(of_laplacian.convert(kind=Chebyshev).coef.tolist())
