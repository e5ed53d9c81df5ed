# SPDX-License-Identifier: Apache-2.0
import pytest

from legcf_studies.report.tables import holm


def test_holm() -> None:
    corrected = holm({"a": 0.01, "b": 0.04, "c": 0.03})
    assert corrected == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})
    assert holm({}) == {}
