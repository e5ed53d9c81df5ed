# SPDX-License-Identifier: Apache-2.0
import csv
from pathlib import Path

import pytest

from legcf.core.errors import UserError
from legcf.experiments.sheet import Sheet, Value, write_sheets

ONE = Sheet(
    "Table 2: 5 % of A_B",
    ["", "values", "ours"],
    [["a & b", 1234, Value(0.5, 0.01, best=True)], ["c", None, Value(0.4, level=True)]],
)
OTHER = Sheet("Other", ["", "paper"], [["d", 0.1]])


def test_latex(tmp_path: Path) -> None:
    write_sheets(tmp_path / "t.tex", [ONE, OTHER])
    text = (tmp_path / "t.tex").read_text()
    assert r"a \& b & 1,234 & \textbf{0.5000} $\pm$ 0.0100 \\" in text
    assert r"c &  & 0.4000$^\circ$ \\" in text
    assert r"\caption{Table 2: 5 \% of A\_B}" in text
    assert text.count(r"\begin{tabular}{lrr}") == text.count(r"\begin{tabular}{lr}") == 1


def test_csv_has_plain_numbers(tmp_path: Path) -> None:
    write_sheets(tmp_path / "t.csv", [ONE, OTHER])
    with open(tmp_path / "t.csv", newline="") as file:
        first, second, third = csv.DictReader(file)
    assert (first["table"], first["row"], first["values"]) == ("Table 2: 5 % of A_B", "a & b", "1234")
    assert (float(first["ours"]), float(first["ours deviation"]), second["ours deviation"]) == (0.5, 0.01, "")
    assert (third["row"], third["paper"], third["ours"]) == ("d", "0.1", "")


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must end in"):
        write_sheets(tmp_path / "t.xlsx", [ONE])
    assert not list(tmp_path.iterdir())
