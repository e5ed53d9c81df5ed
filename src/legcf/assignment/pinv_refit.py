# SPDX-License-Identifier: Apache-2.0
"""Use the paper's closed form to choose meta-embeddings, and least squares on them to set the weights.

With more meta-embeddings than columns (c > d) the pseudo-inverse gives S · P, P a projection whose diagonal is d/c on
average. Its largest entries still name the right meta-embeddings, but what is left of their size is about that share.
"""

from legcf.assignment import pinv
from legcf.assignment.assignment import Assignment
from legcf.assignment.matching_pursuit import DEFAULT_MEMORY_CAP_MB
from legcf.assignment.update import refitted
from legcf.core.arrays import FloatArray


def solve(
    vectors: FloatArray, dictionary: FloatArray, t: int, memory_cap_mb: float = DEFAULT_MEMORY_CAP_MB
) -> Assignment:
    return refitted(vectors, dictionary, pinv.solve(vectors, dictionary, t, memory_cap_mb), memory_cap_mb)
