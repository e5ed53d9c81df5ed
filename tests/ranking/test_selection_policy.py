# SPDX-License-Identifier: Apache-2.0
"""Check which data has which policy."""

import numpy as np
import pytest

from legcf.data.interactions import Interactions
from legcf.ranking.score import Score
from legcf.ranking.selection_policy import FEW_PAIRS, LARGE, LARGE_CATALOGUE, SMALL, SelectionPolicy, is_improvement


def pairs(items: int, count: int) -> Interactions:
    """Return so many pairs of one user each, all with the first item."""
    return Interactions(np.arange(count + 1), np.zeros(count, dtype=np.int32), items)


@pytest.mark.parametrize(
    ("items", "count", "policy"),
    [
        (LARGE_CATALOGUE + 1, FEW_PAIRS + 1, LARGE),
        (LARGE_CATALOGUE, FEW_PAIRS + 1, SMALL),
        (LARGE_CATALOGUE + 1, FEW_PAIRS, SMALL),
    ],
)
def test_large_data_has_many_items_and_many_pairs(items: int, count: int, policy: SelectionPolicy) -> None:
    assert SelectionPolicy.of(pairs(items, count)) is policy


def test_training_is_favoured_in_large_data_alone() -> None:
    assert LARGE.favours_training
    assert LARGE.codes_within > SMALL.codes_within
    assert not SMALL.favours_training


def test_a_setting_replaces_the_usual_one_if_it_is_better_by_its_error_and_one_percent() -> None:
    rng = np.random.default_rng(0)
    usual = rng.random(400)
    noise = rng.standard_normal(400)
    noise -= noise.mean()

    def score(gain: float, spread: float) -> Score:
        values = usual + gain * usual.mean() + spread * noise
        return Score(float(values.mean()), values)

    before = Score(float(usual.mean()), usual)
    assert is_improvement(score(0.02, 0.01), before)
    assert not is_improvement(score(0.005, 0.001), before)  # less than one percent
    assert not is_improvement(score(0.02, 1.0), before)  # less than its error
