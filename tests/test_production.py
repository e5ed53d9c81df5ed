"""docs/production.md does what it says."""

from pathlib import Path

import pytest

from tests.transcript import commands, run, words

DOCUMENT = Path(__file__).parents[1] / "docs" / "production.md"


@pytest.mark.slow
def test_every_command_works_and_prints_what_is_written(tmp_path: Path) -> None:
    written = commands(DOCUMENT.read_text())
    answers = run([command for command, _ in written], tmp_path)
    assert len(answers) == len(written)
    for (command, expected), (code, output) in zip(written, answers, strict=True):
        assert code == 0, f"{command}\n{output}"
        assert words(expected) - words(output) == set(), f"{command}\n{output}"
