# SPDX-License-Identifier: Apache-2.0
"""`legcf report`: the report of a results store, made anew."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from legcf.cli.output import AsJson, Output, print_json


def report(
    out: Annotated[Path, Argument(metavar="OUT", help="The folder of a reproduction; the report is written there.")],
    store: Annotated[Path | None, Option(help="The results store.  [default: OUT/store.sqlite]")] = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Write OUT/results.html (one page that needs nothing else), results.md with plots, and results.json."""
    from legcf.experiments.sheet import check_suffix, write_sheets
    from legcf_studies.paper.store import ResultStore
    from legcf_studies.report.report import write_report
    from legcf_studies.report.tables import all_tables

    check_suffix(output)
    opened = ResultStore.existing(store or out / "store.sqlite")
    content = write_report(opened, out)
    if output is not None:
        write_sheets(output, [table.sheet() for table in all_tables(opened)])
    if as_json:
        print_json(content)
    else:
        typer.echo(f"Report: {out / 'results.html'} and {out / 'results.md'}.")
