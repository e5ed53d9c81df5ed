# SPDX-License-Identifier: Apache-2.0
"""Show less of what somebody was shown before and did not take. Numpy only."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, Positions
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, IdMap

_SECONDS_PER_DAY = 86_400.0


def count_impressions(
    shown: Iterable[tuple[ExternalId, float]], now: float, half_life: float | None = None
) -> dict[ExternalId, float]:
    """Count how often each item was shown.

    Args:
        shown: An item and the time it was shown, in seconds since 1970, for each time.
        now: The time of the request, in seconds since 1970.
        half_life: Days after which an impression counts half; None: all count one.

    Returns:
        A count per item, for `Request(shown=…)`.
    """
    counts: dict[ExternalId, float] = {}
    for item, at in shown:
        days = max(now - at, 0.0) / _SECONDS_PER_DAY
        counts[item] = counts.get(item, 0.0) + (1.0 if half_life is None else 0.5 ** (days / half_life))
    return counts


def damp(
    scores: FloatArray, items: IdMap, shown: Mapping[ExternalId, float], damping: float, max_shown: float | None
) -> Positions:
    """Lower the scores of what was shown, in the array itself; return what was shown too often, to be left out.

    Each impression takes the share `damping` of what a score is above the lowest of all items, so that an item that was
    shown without end comes last. What was shown `max_shown` times or more is left out.
    """
    positions: Positions = items.positions(shown)
    counts: NDArray[np.float64] = np.array(list(shown.values()), dtype=np.float64)
    if not (np.isfinite(counts) & (counts >= 0)).all():
        raise UserError("The counts in `shown` must be numbers of at least 0.")
    if damping and len(positions):
        lowest, keep = scores.min(), ((1 - damping) ** counts).astype(np.float32)
        scores[positions] = lowest + (scores[positions] - lowest) * keep
    return positions[counts >= (np.inf if max_shown is None else max_shown)]
