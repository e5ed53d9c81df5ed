# SPDX-License-Identifier: Apache-2.0
"""Show results of commands: a table for people, one JSON document for machines.

Tables are imported when one is drawn: a command should not wait for what it may not need.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from legcf.core.notebook_repr import cell, print_pairs

__all__ = ["AsJson", "Output", "Quiet", "print_accuracy", "print_json", "print_pairs", "print_table"]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Output = Annotated[Path | None, typer.Option(help="Also write the tables for a paper (.tex) or a spreadsheet (.csv).")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for position, column in enumerate(columns):
        text = any(isinstance(row[position], str) for row in rows)
        table.add_column(column, justify="left" if text or position == 0 else "right")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    console = Console()
    if not console.is_terminal:  # in a file or a pipe no line is too long, and a number cut short is no number
        console.width = max(
            console.width, console.measure(table, options=console.options.update(max_width=10**4)).maximum
        )
    console.print(table)


def print_accuracy(accuracy: Mapping[str, Mapping[str, Mapping[str, float]]], origin: str) -> None:
    """Print metrics of `origin` and of the file that was made of it, if any were measured."""
    rows = [
        (f"{part} {metric}", pair["before"], pair["after"], f"{pair['after'] / max(pair['before'], 1e-12):.1%}")
        for part, metrics in accuracy.items()
        for metric, pair in metrics.items()
    ]
    if rows:
        print_table("Accuracy", ("", origin, "this file", "kept"), rows)
