# SPDX-License-Identifier: Apache-2.0
"""Check that streams stay what they were: every recorded result depends on them."""

import numpy as np
import pytest

from legcf.core.random_streams import Stream, fixed_generator


@pytest.mark.parametrize(
    ("stream", "more", "entropy"),
    [
        (Stream.RUN, (), 7),
        (Stream.VALIDATION_USERS, (), 7),
        (Stream.FACTORISATION, (), 7),
        (Stream.CLUSTERING, (5,), [7, 0, 5]),
        (Stream.HELD_OUT_PAIRS, (), [7, 1]),
        (Stream.HELD_OUT_USERS, (), [7, 2]),
        (Stream.SELECTION_PAIRS, (), [7, 3]),
        (Stream.SELECTION_SAMPLE, (), [7, 4]),
    ],
)
def test_numbers_of_streams(stream: Stream, more: tuple[int, ...], entropy: int | list[int]) -> None:
    expected = np.random.default_rng(entropy).integers(2**60, size=4)
    assert np.array_equal(stream.generator(7, *more).integers(2**60, size=4), expected)


def test_the_fixed_generator_begins_anew_every_time() -> None:
    expected = np.random.default_rng(0).random(4)
    assert np.array_equal(fixed_generator().random(4), expected)
    assert np.array_equal(fixed_generator().random(4), expected)
