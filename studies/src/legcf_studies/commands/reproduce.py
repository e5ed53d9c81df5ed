# SPDX-License-Identifier: Apache-2.0
"""`legcf reproduce`: the paper's tables and figures, ours beside the published numbers."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from legcf.cli.data_options import with_data_options
from legcf.cli.output import AsJson, Output, print_json, print_table
from legcf.core.config import parse_assignments, with_current_keys
from legcf.data.options import DataOptions

if TYPE_CHECKING:
    from legcf_studies.paper.cells import Run
    from legcf_studies.paper.store import ResultStore
    from legcf_studies.report.tables import ResultTable


@with_data_options
def reproduce(
    data_options: DataOptions,
    study: Annotated[
        str,
        Argument(
            metavar="STUDY", help="table2, converged, ablation, hyperparameters, backbones, figures, bytes or all."
        ),
    ],
    data: Annotated[str, Option(help="A folder, a file, or a known name such as gowalla.")],
    rows: Annotated[list[str] | None, Option("--row", help="Run this row alone; may be given again.")] = None,
    seeds: Annotated[int, Option(help="How many seeds: 0, 1, …")] = 1,
    effort: Annotated[
        str, Option("--effort", "--preset", help="quick (large batches, capped runs) or full (the paper's).")
    ] = "quick",
    out: Annotated[Path, Option("--out", "-o", help="Where the report goes.")] = Path("reproduction"),
    store: Annotated[
        Path | None, Option(help="The results store, to be shared or kept.  [default: OUT/store.sqlite]")
    ] = None,
    workers: Annotated[int | None, Option(help="Runs side by side.  [default: the number of cores]")] = None,
    scheduler: Annotated[
        str | None, Option(help="Address of a Dask scheduler whose workers do the runs; they must see the data.")
    ] = None,
    minutes_per_run: Annotated[float | None, Option(help="Most minutes of training per run.  [default: none]")] = None,
    settings: Annotated[
        list[str] | None, Option("--set", help="A configuration key for all runs, e.g. training.epochs=5.")
    ] = None,
    plan: Annotated[bool, Option("--plan", help="Say what there is to do and how long it takes; no run.")] = False,
    output: Output = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="No line per run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the cells of STUDY that the store does not have yet, then write the report into OUT."""
    from legcf.data.source import load_data
    from legcf.experiments.sheet import check_suffix, write_sheets
    from legcf_studies.paper import published
    from legcf_studies.paper.expected import described, workloads
    from legcf_studies.paper.reproduce import StudyRequest, plans, reproduce
    from legcf_studies.paper.store import ResultStore
    from legcf_studies.report.report import take_back, write_report
    from legcf_studies.report.tables import all_tables
    from legcf_studies.workers.machine import cores

    source = str(Path(data).resolve()) if Path(data).exists() else data
    options = data_options.model_dump(mode="json", exclude_defaults=True)
    overrides = with_current_keys(parse_assignments(settings or []), method=None)
    request = StudyRequest(
        study, source, options, seeds, effort, minutes_per_run, overrides, workers, scheduler, tuple(rows or ()), data
    )
    request.check()
    check_suffix(output)
    dataset, path = load_data(data, data_options), store or out / "store.sqlite"
    opened = ResultStore(Path(":memory:") if plan and not path.exists() else path)  # a plan leaves nothing behind
    if not published.is_known(dataset.name, dataset.num_users, dataset.num_items):
        typer.echo(
            f"The paper has no numbers for {dataset.name} (only for {', '.join(published.datasets())}): "
            "there is nothing to compare with.",
            err=True,
        )
    taken = take_back(opened, out)
    if taken:
        typer.echo(f"{taken} runs are taken over from {out / 'results.json'}.", err=True)
    loads = workloads(plans(request, dataset), opened.rows(), dataset.train.num_pairs)
    if plan and as_json:
        print_json({"studies": [asdict(load) for load in loads], "workers": workers or cores()})
    elif plan or not quiet:
        typer.echo("\n".join(described(loads, workers or cores())), err=not plan)
    if plan:
        return
    tell = (lambda event, run: None) if quiet or as_json else partial(_tell, opened)
    done = reproduce(request, dataset, opened, tell)
    content = write_report(opened, out)
    if output is not None:
        write_sheets(output, [table.sheet() for table in all_tables(opened)])
    failed = sum(opened.status(run.key)[0] == "failed" for planned in done.values() for run in planned.runs)
    if as_json:
        print_json(content)
    else:
        for table in all_tables(opened):
            if (table.dataset, table.effort) == (dataset.name, effort) and study in ("all", table.study):
                _show(table)
        typer.echo(f"Report: {out / 'results.html'} and {out / 'results.md'}; results: {opened.path}.")
    if failed:
        typer.echo(f"{failed} runs failed; the same command tries them again and repeats nothing else.", err=True)
        raise typer.Exit(1)


def _show(table: "ResultTable") -> None:
    rows: list[list[object]] = []
    for line in table.lines:
        means = {name: measured.mean for name, measured in line.measured.items()}
        metrics = [numbers.get(name, "") for name in table.metrics for numbers in (line.published, means)]
        rows.append([line.label, "" if line.params is None else line.params, *metrics, line.problem or ""])
    names = [f"{who} {name}" for name in table.metrics for who in ("paper", "ours")]
    print_table(f"{table.title} ({table.dataset}, {table.effort})", ["", "values", *names, ""], rows)


def _tell(store: "ResultStore", event: str, run: "Run") -> None:
    """Print a line on stderr when a run starts or ends."""
    name = f"{run.cell.label}, seed {run.seed}"
    if event == "finished":
        row = store.rows()[run.key]
        test = row.metrics["test"]
        name += (
            f": recall@20 {test['recall@20']:.4f}, ndcg@20 {test['ndcg@20']:.4f},"
            f" {row.metrics['num_params']:,} values, {row.seconds or 0:.0f} s"
        )
    elif event == "failed":
        name += f": {store.status(run.key)[1]}"
    typer.echo(f"{'has it already' if event == 'kept' else event:>25}  {name}", err=True)
