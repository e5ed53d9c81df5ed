# SPDX-License-Identifier: Apache-2.0
"""Hold whom a request is for, in positions."""

from dataclasses import dataclass

from legcf.core.arrays import FloatArray, Positions


@dataclass(frozen=True)
class UserProfile:
    """Hold a request in positions: the user's vector and the items it is known to have."""

    vector: FloatArray
    history: Positions
    relative: FloatArray | None = None
    """How much each of these items counts, in units of their mean; None where all count alike."""
