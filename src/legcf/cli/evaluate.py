"""`legcf evaluate`: metrics of a finished run, computed anew."""

from pathlib import Path
from typing import Annotated

import typer

from legcf.cli.output import AsJson, print_json, print_table
from legcf.errors import UserError


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    part: Annotated[str, typer.Option(help="test or validation.")] = "test",
    k: Annotated[list[int] | None, typer.Option("-k", help="List length; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Rank all items for every user of RUN's data and print the metrics."""
    from legcf.evaluation.metrics import METRICS
    from legcf.recommender import Recommender

    ks = sorted(set(k or [5, 10, 20]))
    if ks[0] < 1:
        raise UserError(f"-k {ks[0]} is not possible; list lengths start at 1.")
    recommender = Recommender.load(run)
    metrics = recommender.evaluate(part, ks)
    if as_json:
        print_json({"run": str(run), "part": part, "protocol": recommender.metrics["protocol"], "metrics": metrics})
        return
    rows = [[name, *(metrics[f"{name}@{depth}"] for depth in ks)] for name in (*METRICS, "coverage")]
    print_table(f"{run}, {part} ({recommender.metrics['protocol']})", ["metric", *(f"@{depth}" for depth in ks)], rows)
