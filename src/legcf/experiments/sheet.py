# SPDX-License-Identifier: Apache-2.0
"""Write tables for papers and spreadsheets: LaTeX with booktabs, or CSV with plain numbers; the suffix decides."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from legcf.core.errors import UserError
from legcf.core.files import written_whole

_SMALL = 1e-4  # below it four decimals show nothing
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}


@dataclass(frozen=True)
class Value:
    """Hold a number with its deviation, and whether it is the best of its column or not told from that."""

    mean: float
    spread: float | None = None
    best: bool = False
    level: bool = False


SheetCell = str | int | float | Value | None


@dataclass(frozen=True)
class Sheet:
    """Hold a table; its first column names the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[SheetCell]]


def check_suffix(path: Path | None) -> None:
    """Refuse a name that no writer is for, before any work is done."""
    if path is not None and path.suffix.lower() not in _WRITERS:
        raise UserError(f"--output {path} must end in {' or '.join(_WRITERS)}, which says what is written.")


def write_sheets(path: Path, sheets: Sequence[Sheet]) -> None:
    """Write all tables into one file."""
    check_suffix(path)
    with written_whole(path) as temporary:
        _WRITERS[path.suffix.lower()](temporary, sheets)


def _write_csv(path: Path, sheets: Sequence[Sheet]) -> None:
    """Write a row for each row of each table, under the columns of all; deviations have columns of their own."""
    several = {"table": None} if len(sheets) > 1 else {}
    rows = [
        {**({"table": sheet.title} if several else {}), **_flat(sheet, row)} for sheet in sheets for row in sheet.rows
    ]
    columns = list(dict.fromkeys([*several, *(name for row in rows for name in row)]))
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def _flat(sheet: Sheet, row: Sequence[SheetCell]) -> dict[str, str | int | float | None]:
    flat: dict[str, str | int | float | None] = {}
    for position, (name, cell) in enumerate(zip(sheet.columns, row, strict=True)):
        flat[name or ("row" if position == 0 else "")] = cell.mean if isinstance(cell, Value) else cell
        if any(isinstance(one[position], Value) and one[position].spread is not None for one in sheet.rows):  # type: ignore[union-attr]
            flat[f"{name} deviation"] = cell.spread if isinstance(cell, Value) else None
    return flat


def _latex(sheet: Sheet) -> str:
    lines = [" & ".join(map(_escaped, sheet.columns)), *(" & ".join(map(_latex_cell, row)) for row in sheet.rows)]
    head, *body = (f"{line} \\\\" for line in lines)
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            rf"\caption{{{_escaped(sheet.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(sheet.columns) - 1)}}}",
            r"\toprule", head, r"\midrule", *body, r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )  # fmt: skip


def _latex_cell(cell: SheetCell) -> str:
    match cell:
        case None:
            return ""
        case str():
            return _escaped(cell)
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:.4f}" if not cell or abs(cell) >= _SMALL else f"{cell:.1e}"
        case Value(mean, spread, best, level):
            number = rf"\textbf{{{mean:.4f}}}" if best else f"{mean:.4f}"
            return number + ("" if spread is None else rf" $\pm$ {spread:.4f}") + (r"$^\circ$" if level else "")


def _escaped(text: str) -> str:
    return re.sub(r"[&%$#_{}~^\\±]", lambda found: _SPECIAL.get(found[0], f"\\{found[0]}"), text)


_WRITERS: dict[str, Callable[[Path, Sequence[Sheet]], object]] = {
    ".tex": lambda path, sheets: path.write_text("\n".join(map(_latex, sheets)), encoding="utf-8"),
    ".csv": _write_csv,
}
