# SPDX-License-Identifier: Apache-2.0
"""How results are shown."""

import pytest

from legcf.cli.output import print_table


def test_a_table_in_a_file_has_every_number_whole(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = [f"paper metric {number}" for number in range(20)]
    print_table("wide", ["row", *metrics], [["a row with a long name", *(0.1234 + number for number in range(20))]])
    shown = capsys.readouterr().out
    assert "…" not in shown
    for number, name in enumerate(metrics):
        assert name in shown
        assert f"{0.1234 + number:.4f}" in shown
