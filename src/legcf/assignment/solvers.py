# SPDX-License-Identifier: Apache-2.0
"""Name the assignment solvers. A new solver is one file and one line here, or an entry point of another package."""

from collections.abc import Callable

from legcf.assignment import matching_pursuit, pinv
from legcf.assignment.assignment import Assignment
from legcf.core.arrays import FloatArray
from legcf.core.plugins import Registry

Solver = Callable[[FloatArray, FloatArray, int, float], Assignment]
"""(H_full rows, H_meta, t, memory cap in MB) → S with S ≥ 0 and at most t non-zeros per row."""

SOLVERS: Registry[Solver] = Registry(
    "solver",
    "legcf.solvers",
    callable,
    {"pinv": pinv.solve, "pinv-refit": pinv.solve_and_refit, "matching-pursuit": matching_pursuit.solve},
)
