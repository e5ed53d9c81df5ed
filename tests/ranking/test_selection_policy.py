# SPDX-License-Identifier: Apache-2.0
"""Check which catalogues have which policy."""

import numpy as np

from legcf.ranking.score import Score
from legcf.ranking.selection_policy import LARGE, LARGE_CATALOGUE, SMALL, SelectionPolicy, is_improvement


def test_the_boundary_is_part_of_the_small_catalogues() -> None:
    assert SelectionPolicy.for_catalogue(LARGE_CATALOGUE) is SMALL
    assert SelectionPolicy.for_catalogue(LARGE_CATALOGUE + 1) is LARGE


def test_training_is_favoured_in_large_catalogues_alone() -> None:
    assert LARGE.favours_training
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
