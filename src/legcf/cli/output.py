# SPDX-License-Identifier: Apache-2.0
"""Show results of commands: a table for people, one JSON document for machines.

Tables are imported when one is drawn: a command should not wait for what it may not need.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Output = Annotated[Path | None, typer.Option(help="Also write the tables for a paper (.tex) or a spreadsheet (.csv).")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]

SHOWN_METRICS = ("recall@20", "ndcg@20", "recall@10", "ndcg@10")
"""The metrics that a person looks for first."""


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
        table.add_row(*(_cell(value) for value in row))
    console = Console()
    if not console.is_terminal:  # in a file or a pipe no line is too long, and a number cut short is no number
        console.width = max(
            console.width, console.measure(table, options=console.options.update(max_width=10**4)).maximum
        )
    console.print(table)


def print_pairs(title: str, pairs: Mapping[str, Any]) -> None:
    """Print a two-column table of names and values."""
    from rich.console import Console
    from rich.table import Column, Table

    table = Table("", Column(justify="right"), title=title, title_justify="left", show_header=False)
    for name, value in pairs.items():
        table.add_row(name, _cell(value))
    Console().print(table)


def print_accuracy(accuracy: Mapping[str, Mapping[str, Mapping[str, float]]], origin: str) -> None:
    """Print metrics of `origin` and of the file that was made of it, if any were measured."""
    rows = [
        (f"{part} {metric}", pair["before"], pair["after"], f"{pair['after'] / max(pair['before'], 1e-12):.1%}")
        for part, metrics in accuracy.items()
        for metric, pair in metrics.items()
    ]
    if rows:
        print_table("Accuracy", ("", origin, "this file", "kept"), rows)


def summary(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the lines of a result that a person looks for first."""
    test = metrics["test"]
    return {
        **{f"test {name}": test[name] for name in SHOWN_METRICS if name in test},
        "validation ndcg@20": metrics["validation"].get("ndcg@20", "no pairs to validate by"),
        **({"measured on (users)": test["judged_users"]} if "judged_users" in test else {}),
        **({"best epoch of each stage": best} if (best := best_epochs(metrics)) else {}),
        **({"trained once more on all (pairs)": metrics["final"]["pairs"]} if "final" in metrics else {}),
        "values stored (the paper's count)": metrics["num_params"],
        "bytes stored": metrics["storage_bytes"],
        "times smaller than the full table": metrics["full_table_bytes"] / max(metrics["storage_bytes"], 1),
        "seconds": metrics["seconds"].get("whole", metrics["seconds"]["this_session"]),
        "peak memory, MB": metrics["peak_rss_mb"],
        "preset": metrics["preset"],
        "seed": str(metrics["seed"]),
    }


def method_title(asked: str, kept: str) -> str:
    """Name the method of a run, and the one that its model was kept as where that is another."""
    return asked if asked == kept else f"{asked}, kept as {kept},"


def best_epochs(metrics: Mapping[str, Any]) -> str:
    """Name the best epoch of every stage and the one that was kept; nothing for runs of one stage."""
    stages, kept = metrics.get("best_epochs") or {}, (metrics.get("best_epoch") or {}).get("stage")
    if len(stages) < 2:
        return ""
    return ", ".join(f"{name} {best['epoch']}{' (kept)' if name == kept else ''}" for name, best in stages.items())


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"
    return str(value)
