# SPDX-License-Identifier: Apache-2.0
"""Progress: silent when asked, a bar on a terminal, plain lines now and then where there is none."""

import os
import pty
import subprocess
import sys

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


def test_a_bar_on_a_terminal() -> None:
    """Beside the bar, lines that others print stay whole."""
    code = (
        "import sys, time; from legcf.core.progress import progress\n"
        "with progress('Reading', 4, 'rows') as task:\n"
        "    for _ in range(4): task.advance(1, 'part 1'); time.sleep(0.2)\n"
        "print('a line', file=sys.stderr)"
    )
    reader, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    child = subprocess.Popen([sys.executable, "-c", code], stderr=terminal, env=environment)
    os.close(terminal)
    said = b""
    while True:
        try:
            said += os.read(reader, 4096)
        except OSError:  # the terminal is gone
            break
    os.close(reader)
    assert child.wait() == 0, said.decode()
    shown = said.decode()
    assert "Reading" in shown
    assert "rows/s" in shown
    assert "part 1" in shown
    assert "a line" in shown
