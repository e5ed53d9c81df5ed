# SPDX-License-Identifier: Apache-2.0
"""`legcf evaluate`: metrics of a finished run or of a model file, computed anew."""

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
    run: Annotated[Path, Argument(metavar="RUN", help="A run folder, or a model file.")],
    part: Annotated[str, Option(help="test or validation.")] = "test",
    data: Annotated[
        str | None, Option(help="Other data to measure on; only pairs that the model does not know count.")
    ] = None,
    k: Annotated[list[int] | None, Option("-k", help="List length; may be repeated.")] = None,
    workers: Annotated[int, Option(min=1, help="Processes of this machine that share the users.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Rank all items for every user of RUN's data, or of --data, and print the metrics."""
    from legcf.core import distributed

    ks = sorted(set(k or [5, 10, 20]))
    if ks[0] < 1:
        raise UserError(f"-k {ks[0]} is not possible; list lengths start at 1.")
    refuse_without_data(data, data_options, "other data is")
    if part not in ("test", "validation"):
        raise UserError(f"--part {part} is not possible: choose test or validation.")
    if start_ranks(workers):
        return
    if run.is_file() and data is None:
        raise UserError(f"{run} is a model file, which does not name its data: say what to measure it on with --data.")
    join_ranks()
    metrics, protocol = (_of_file if run.is_file() else _of_run)(run, part if data is None else data, ks, data_options)
    speaks = distributed.is_first()
    distributed.leave()
    if not speaks:
        return
    from legcf.evaluation.metrics import METRICS

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


def _of_run(run: Path, data: str, ks: list[int], options: DataOptions) -> tuple[dict[str, float], str]:
    """Return metrics on a part of the run's data or on other data, and how its data was split."""
    from legcf.recommender import Recommender

    recommender = Recommender.load(run)
    return recommender.evaluate(data, ks, options), recommender.metrics["protocol"]


def _of_file(path: Path, data: str, ks: list[int], options: DataOptions) -> tuple[dict[str, float], str]:
    """Return metrics on data, and how it was split."""
    from legcf.core import threads
    from legcf.data.source import load_data
    from legcf.export.evaluate import evaluate_file
    from legcf.modelfile.served_model import ServedModel

    model = ServedModel.load(path)
    threads.use()
    dataset = load_data(data, options)
    return evaluate_file(model, dataset, ks), dataset.protocol
