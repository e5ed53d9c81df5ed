# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from scipy import stats

from legcf.experiments.statistics import Measured, paired


def test_paired_is_scipys() -> None:
    rng = np.random.default_rng(0)
    first = rng.random(200).astype(np.float32)
    second = (first + 0.02 + 0.1 * rng.standard_normal(200)).astype(np.float32)
    found = paired(first, second)
    wide = first.astype(np.float64), second.astype(np.float64)
    assert found.t_test == pytest.approx(stats.ttest_rel(wide[1], wide[0]).pvalue)
    assert found.wilcoxon == pytest.approx(stats.wilcoxon(wide[1] - wide[0], method="approx").pvalue)
    assert found.difference == pytest.approx(float((wide[1] - wide[0]).mean()))
    assert found.low < found.difference < found.high
    assert found.users == 200


def test_no_difference_is_not_significant() -> None:
    values = np.ones(10, dtype=np.float32)
    found = paired(values, values)
    assert (found.t_test, found.wilcoxon, found.difference) == (1.0, 1.0, 0.0)
    assert paired(values[:1], values[:1]).t_test == 1.0


def test_spread_needs_two_seeds() -> None:
    assert Measured.of([0.1]).spread is None
    assert Measured.of([0.1, 0.3]).spread == pytest.approx(np.std([0.1, 0.3], ddof=1))
