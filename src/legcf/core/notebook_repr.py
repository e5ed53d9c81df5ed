# SPDX-License-Identifier: Apache-2.0
"""Represent objects in a notebook: a heading and a few facts, as text or as a small table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape


@dataclass(frozen=True)
class Facts:
    """Hold what a representation shows of an object, and a next step."""

    title: str
    rows: Mapping[str, str] = field(default_factory=dict)
    next_step: str = ""
    """A line of code or a command."""


def plain(facts: Facts) -> str:
    """Return one line: `Recommender(legcf on films, users: 671, …)`."""
    return f"{facts.title}({', '.join(f'{name}: {value}' for name, value in facts.rows.items())})"


def html(facts: Facts) -> str:
    """Return a table in the notebook's own colours."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts.rows.items()
    )
    following = f"<p>Next: <code>{escape(facts.next_step)}</code></p>" if facts.next_step else ""
    return f"<div><strong>{escape(facts.title)}</strong><table>{rows}</table>{following}</div>"


def size(count: int) -> str:
    """Return a number of bytes as people read it: 48,910 bytes, 1.65 MB."""
    return f"{count:,} bytes" if count < 10**5 else f"{count / 10**6:.2f} MB"
