# SPDX-License-Identifier: Apache-2.0
"""Doubling and halving: the top of a hill, within bounds, nothing tried twice."""

import math

import pytest

from legcf.core.hill_climb import climb, peak


@pytest.mark.parametrize(("top", "found"), [(4.0, 4.0), (0.25, 0.25), (1.0, 1.0), (1000.0, 8.0), (1e-6, 0.125)])
def test_reaches_the_top_or_the_bound(top: float, found: float) -> None:
    tried: list[float] = []

    def score(value: float) -> float:
        tried.append(value)
        return -abs(math.log(value / top))

    assert climb(score, 1.0, least=0.125, most=8.0) == found
    assert len(tried) == len(set(tried))
    assert all(0.125 <= value <= 8.0 for value in tried)


def test_stays_where_nothing_gains() -> None:
    assert climb(lambda value: 0.0, 3.0) == 3.0


def test_the_peak_of_a_parabola_lies_between_what_is_tried() -> None:
    scores = {value: -((math.log2(value) - 2.3) ** 2) for value in (1.0, 2.0, 4.0, 8.0)}
    assert peak(scores, 4.0) == pytest.approx(2**2.3)
    assert peak(scores, 8.0) == 8.0, "nothing above it was tried"
    assert peak(dict.fromkeys((1.0, 2.0, 4.0), 0.5), 2.0) == 2.0
