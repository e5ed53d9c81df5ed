# SPDX-License-Identifier: Apache-2.0
"""The assignment solvers by name. A new solver is one file and one line here."""

from collections.abc import Callable

from legcf.assignment import matching_pursuit, pinv, pinv_refit
from legcf.assignment.assignment import Assignment
from legcf.core.arrays import FloatArray

Solver = Callable[[FloatArray, FloatArray, int, float], Assignment]
"""(H_full rows, H_meta, t, memory cap in MB) → S with S ≥ 0 and at most t non-zeros per row."""

SOLVERS: dict[str, Solver] = {
    "pinv": pinv.solve,
    "pinv-refit": pinv_refit.solve,
    "matching-pursuit": matching_pursuit.solve,
}
