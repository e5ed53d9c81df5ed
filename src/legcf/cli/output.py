"""How commands show results: a table for people, one JSON document for machines."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    table = Table(title=title, title_justify="left")
    for position, column in enumerate(columns):
        text = any(isinstance(row[position], str) for row in rows)
        table.add_column(column, justify="left" if text or position == 0 else "right")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    Console().print(table)


def print_pairs(title: str, pairs: Mapping[str, Any]) -> None:
    """A two-column table of names and values."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    for name, value in pairs.items():
        table.add_row(name, _cell(value))
    Console().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"
    return str(value)
