# SPDX-License-Identifier: Apache-2.0
"""Check what every metric promises: a value per user, from the first k of a ranked list and what could be found."""

from typing import ClassVar

import numpy as np
import pytest

from legcf.evaluation.metrics import METRICS, Counts, Hits

DEPTH = 12


def ranked_lists(seed: int = 0) -> tuple[Hits, Counts]:
    """Draw lists of 40 users: some have no hit, the first has nothing but hits, and most have right items beyond."""
    rng = np.random.default_rng(seed)
    hits = rng.random((40, DEPTH)) < rng.random((40, 1)) * 0.5
    hits[0] = True
    return hits, np.asarray(hits.sum(axis=1) + rng.integers(1, 5, 40), dtype=np.int64)


class MetricContract:
    """Inherit this and set `name` to the metric's."""

    name: ClassVar[str]

    @pytest.fixture
    def metric(self) -> str:
        return self.name

    @pytest.mark.parametrize("k", [1, 3, DEPTH, DEPTH + 5])
    def test_gives_every_user_a_value_between_zero_and_one(self, metric: str, k: int) -> None:
        hits, relevant = ranked_lists()
        values = METRICS[metric](hits, relevant, k)
        assert values.shape == (40,)
        assert values.dtype == np.float64
        assert ((values >= 0) & (values <= 1)).all()

    def test_looks_at_the_first_k_alone(self, metric: str) -> None:
        hits, relevant = ranked_lists()
        cut = hits.copy()
        cut[:, 5:] = ~cut[:, 5:]
        assert np.array_equal(METRICS[metric](hits, relevant, 5), METRICS[metric](cut, relevant, 5))

    def test_users_do_not_depend_on_each_other(self, metric: str) -> None:
        hits, relevant = ranked_lists()
        order = np.random.default_rng(0).permutation(40)
        whole = METRICS[metric](hits, relevant, 10)
        assert np.allclose(METRICS[metric](hits[order], relevant[order], 10), whole[order], rtol=1e-12)
        assert METRICS[metric](hits[:0], relevant[:0], 10).shape == (0,)

    def test_an_earlier_hit_is_no_worse(self, metric: str) -> None:
        hits, relevant = ranked_lists()
        sorted_hits = -np.sort(-hits.astype(np.int8), axis=1) > 0
        better, as_drawn = (METRICS[metric](lists, relevant, 5) for lists in (sorted_hits, hits))
        assert (better >= as_drawn - 1e-12).all()
        assert (METRICS[metric](np.zeros_like(hits), relevant, 5) <= as_drawn + 1e-12).all()

    def test_input_is_left_alone(self, metric: str) -> None:
        hits, relevant = ranked_lists()
        METRICS[metric](hits, relevant, 4)
        for left_alone, drawn in zip((hits, relevant), ranked_lists(), strict=True):
            assert np.array_equal(left_alone, drawn)
