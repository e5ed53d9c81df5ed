# SPDX-License-Identifier: Apache-2.0
"""Each fuzzer for a few cases; `make fuzz` runs them for minutes."""

import pytest

from tests.fuzz.runner import TARGETS, run

CASES = {"model-file": 150, "run-folder": 12, "tables": 40, "prepared": 100, "http": 100, "events": 8}
CASES |= {"any-file": 1, "any-table": 1, "any-log": 1, "any-ask": 1}  # attempts of fifty


@pytest.mark.parametrize("name", TARGETS)
def test_no_case_fails(name: str) -> None:
    cases, _, failures = run(name, 60, seed=1, first=0, step=1, most=CASES[name])
    assert not failures, "\n".join(failures)
    assert cases > 0


@pytest.mark.parametrize(("name", "seed", "case"), [("events", 0, 1677)])
def test_cases_that_failed_once(name: str, seed: int, case: int) -> None:
    _, _, failures = run(name, 60, seed, case, step=1, most=1)
    assert not failures, "\n".join(failures)
