# SPDX-License-Identifier: Apache-2.0
"""Represent objects in a notebook: a heading and a few facts, as text or as a small table; print tables of facts."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any


@dataclass(frozen=True)
class Facts:
    """Hold what a representation shows of an object, and a next step."""

    title: str
    rows: Mapping[str, str] = field(default_factory=dict)
    next_step: str = ""
    """A line of code or a command."""


class Shown(ABC):
    """Show an object by its facts: as one line, `Recommender(legcf on films, …)`, or as a table in a notebook."""

    @abstractmethod
    def _facts(self) -> Facts:
        """Return what is shown."""

    def __repr__(self) -> str:
        facts = self._facts()
        return f"{facts.title}({', '.join(f'{name}: {value}' for name, value in facts.rows.items())})"

    def _repr_html_(self) -> str:
        facts = self._facts()
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
            for name, value in facts.rows.items()
        )
        following = f"<p>Next: <code>{escape(facts.next_step)}</code></p>" if facts.next_step else ""
        return f"<div><strong>{escape(facts.title)}</strong><table>{rows}</table>{following}</div>"


def size(count: int) -> str:
    """Return a number of bytes as people read it: 48,910 bytes, 1.65 MB."""
    return f"{count:,} bytes" if count < 10**5 else f"{count / 10**6:.2f} MB"


def print_pairs(title: str, pairs: Mapping[str, Any]) -> None:
    """Print a two-column table of names and values."""
    from rich.console import Console
    from rich.table import Column, Table

    table = Table("", Column(justify="right"), title=title, title_justify="left", show_header=False)
    for name, value in pairs.items():
        table.add_row(name, cell(value))
    Console().print(table)


def cell(value: Any) -> str:
    """Return a value as tables show it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"
    return str(value)
