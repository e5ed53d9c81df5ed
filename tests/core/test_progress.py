# SPDX-License-Identifier: Apache-2.0
"""Progress: silent when asked, plain lines now and then where there is no terminal."""

import pytest

from legcf.core import progress as module
from legcf.core.progress import progress


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Reading", 3, quiet=True) as task:
        task.advance(3)
    assert capsys.readouterr() == ("", "")


def test_plain_lines_with_rate_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PLAIN_EVERY_SECONDS", 0.0)
    with progress("Reading", 1000, "rows") as task:
        task.advance(0)
        task.advance(250, note="part 1")
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("Reading: 250/1,000 rows, ")
    assert "s left" in said[-1]
    assert said[-1].endswith("part 1")


def test_a_total_need_not_be_known(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PLAIN_EVERY_SECONDS", 0.0)
    with progress("Reading", None, "rows") as task:
        task.advance(5)
    assert "5 rows" in capsys.readouterr().err
