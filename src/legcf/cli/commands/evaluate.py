# SPDX-License-Identifier: Apache-2.0
"""`legcf evaluate`: metrics of a finished run, computed anew."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from legcf.cli.data_options import refuse_without_data, with_data_options
from legcf.cli.output import AsJson, print_json, print_table
from legcf.cli.workers import join_ranks, start_ranks
from legcf.core.errors import UserError
from legcf.data.options import DataOptions

_NOTES = {
    "fallback_users": "{:,} users were ranked by what is popular: nothing is known of them.",
    "unknown_pairs": "{:,} pairs were left out: the model does not know their users or items.",
    "trained_pairs": "{:,} pairs were left out: the model was trained on them.",
}


@with_data_options
def evaluate(
    data_options: DataOptions,
    run: Annotated[Path, Argument(metavar="RUN", help="A run folder.")],
    part: Annotated[str, Option(help="test or validation.")] = "test",
    data: Annotated[
        str | None, Option(help="Other data to measure on; only pairs that the run was not trained on count.")
    ] = None,
    k: Annotated[list[int] | None, Option("-k", help="List length; may be repeated.")] = None,
    workers: Annotated[int, Option(min=1, help="Processes of this machine that share the users.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Rank all items for every user of RUN's data and print the metrics."""
    from legcf.core import distributed
    from legcf.evaluation.metrics import METRICS
    from legcf.recommender import Recommender

    ks = sorted(set(k or [5, 10, 20]))
    if ks[0] < 1:
        raise UserError(f"-k {ks[0]} is not possible; list lengths start at 1.")
    refuse_without_data(data, data_options, "other data is")
    if part not in ("test", "validation"):
        raise UserError(f"--part {part} is not possible: choose test or validation.")
    if start_ranks(workers):
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
    for name, sentence in _NOTES.items():
        if metrics.get(name):
            typer.echo(sentence.format(metrics[name]))
