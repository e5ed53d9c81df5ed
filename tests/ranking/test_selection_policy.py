# SPDX-License-Identifier: Apache-2.0
"""Check which catalogues have which policy."""

from legcf.ranking.selection_policy import LARGE, LARGE_CATALOGUE, SMALL, SelectionPolicy


def test_the_boundary_is_part_of_the_small_catalogues() -> None:
    assert SelectionPolicy.for_catalogue(LARGE_CATALOGUE) is SMALL
    assert SelectionPolicy.for_catalogue(LARGE_CATALOGUE + 1) is LARGE


def test_training_is_favoured_in_large_catalogues_alone() -> None:
    assert SMALL.trained_handicap < 1 < LARGE.trained_handicap
