# SPDX-License-Identifier: Apache-2.0
"""Have codes tried on the small data of tests."""

import math
from dataclasses import replace

import pytest

from legcf.ranking import selection_policy


@pytest.fixture
def codes_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small data try codes, however many bytes an item has."""
    monkeypatch.setattr(selection_policy, "SMALL", replace(selection_policy.SMALL, codes_within=math.inf))
