# SPDX-License-Identifier: Apache-2.0
"""`legcf evaluate`: metrics of a finished run, computed anew."""

from pathlib import Path
from typing import Annotated

import typer

from legcf.cli.data_options import option_name, with_data_options
from legcf.cli.output import AsJson, print_json, print_table
from legcf.cli.workers import join as join_ranks
from legcf.cli.workers import must_start as must_start_workers
from legcf.cli.workers import start as start_workers
from legcf.core.errors import UserError
from legcf.data.options import DataOptions


@with_data_options
def evaluate(
    data_options: DataOptions,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    part: Annotated[str, typer.Option(help="test or validation.")] = "test",
    data: Annotated[
        str | None, typer.Option(help="Other data to measure on; only pairs that the run was not trained on count.")
    ] = None,
    k: Annotated[list[int] | None, typer.Option("-k", help="List length; may be repeated.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes of this machine that share the users.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Rank all items for every user of RUN's data and print the metrics."""
    from legcf.core import distributed
    from legcf.evaluation.metrics import METRICS
    from legcf.recommender import Recommender

    ks = sorted(set(k or [5, 10, 20]))
    if ks[0] < 1:
        raise UserError(f"-k {ks[0]} is not possible; list lengths start at 1.")
    if data is None and data_options.model_fields_set:
        names = ", ".join(map(option_name, sorted(data_options.model_fields_set)))
        raise UserError(f"{names} says how other data is read, but there is no --data.")
    if part not in ("test", "validation"):
        raise UserError(f"--part {part} is not possible: choose test or validation.")
    if must_start_workers(workers):
        start_workers(workers)
        return
    join_ranks()
    recommender = Recommender.load(run)
    metrics = recommender.evaluate(part if data is None else data, ks, data_options)
    speaks = distributed.is_first()
    distributed.leave()
    if not speaks:
        return
    protocol = recommender.metrics["protocol"]
    measured_by = {"part": part, "protocol": protocol} if data is None else {"data": data}
    if as_json:
        print_json({"run": str(run), **measured_by, "metrics": metrics})
        return
    rows = [[name, *(metrics[f"{name}@{depth}"] for depth in ks)] for name in (*METRICS, "coverage")]
    title = f"{run}, {part} ({protocol})" if data is None else f"{run}, {data}"
    print_table(title, ["metric", *(f"@{depth}" for depth in ks)], rows)
    for sentence in _notes(metrics):
        typer.echo(sentence)


def _notes(metrics: dict[str, float]) -> list[str]:
    """Return what to know beside the numbers."""
    sentences = {
        "fallback_users": "{:,} users were ranked by what is popular: nothing is known of them.",
        "unknown_pairs": "{:,} pairs were left out: the model does not know their users or items.",
        "trained_pairs": "{:,} pairs were left out: the model was trained on them.",
    }
    return [sentence.format(metrics[name]) for name, sentence in sentences.items() if metrics.get(name)]
