# SPDX-License-Identifier: Apache-2.0
"""`legcf export`: from a run to one small file that serves without the graph."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from legcf.cli.output import AsJson, Quiet, print_accuracy, print_json, print_pairs


def export(
    run: Annotated[Path, Argument(metavar="RUN", help="A run folder of `legcf train`.")],
    model: Annotated[
        Path,
        Argument(
            metavar="MODEL", help="The file to write: model.legcf, or page.html for a page that opens without a server."
        ),
    ],
    t: Annotated[
        int | None, Option("-t", min=1, max=64, help="Meta-embeddings per row.  [default: the model's own, else 4]")
    ] = None,
    c: Annotated[int | None, Option("-c", min=1, help="Meta-embeddings in all.  [default: the model's own]")] = None,
    dtype: Annotated[
        str | None, Option(help="Numbers as int8 with scales, float16 or float32.  [default: int8; float32 for full]")
    ] = None,
    format: Annotated[
        str,
        Option(
            help="coded, full (the propagated table), web (a folder with a page, for any static host), or vectors (a"
            " folder with ids and vectors, for a vector search).",
        ),
    ] = "coded",
    users: Annotated[
        str | None,
        Option(
            help="coded: users can be asked for by id, by a code of their vector; history: by what they have; none:"
            " every request brings the user's items.  [default: what the model's users are; none after train --bytes]"
        ),
    ] = None,
    history: Annotated[bool | None, Option(help="Store what users have.  [default: yes, unless --users none]")] = None,
    attributes: Annotated[
        str | None,
        Option(help="Columns of --items that requests may filter by, such as category,price.  [default: all of them]"),
    ] = None,
    items: Annotated[
        Path | None, Option(help="A table with a row for each item: its id, and attributes to filter by.")
    ] = None,
    titles: Annotated[bool, Option(help="Store the titles of items, if there are any.")] = True,
    seed: Annotated[int, Option(help="Seed of the codebook's start and of the samples.")] = 0,
    evaluate: Annotated[bool, Option(help="Measure accuracy before and after, if the data is still there.")] = True,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write RUN as one MODEL file: codebook, codes, ids, titles. Prints size and accuracy before and after."""
    given = dict(locals())
    from legcf.core import jit
    from legcf.export.export import export_model
    from legcf.export.options import ExportOptions
    from legcf.recommender import Recommender

    quiet = quiet or as_json
    if quiet:
        jit.silence()
    names = None if attributes is None else [name.strip() for name in attributes.split(",") if name.strip()]
    given |= {"attributes": names, "quiet": quiet}
    options = ExportOptions(**{option.name: given[option.name] for option in fields(ExportOptions)})
    trained = Recommender.load(run)
    report = export_model(trained.trained, model, options, trained.dataset)
    if report.unmeasured is not None and not quiet:
        typer.echo(f"legcf: accuracy is not measured: {report.unmeasured}", err=True)
    content = asdict(report)
    content.pop("unmeasured")
    if as_json:
        print_json(content)
    else:
        _show(content)


def _show(report: dict[str, Any]) -> None:
    share = report["full_table_bytes"] / max(report["bytes"], 1)
    sizes = {f"{name} (bytes)": size for name, size in report["parts"].items() if size}
    total = {"file (bytes)": report["bytes"], "full table, 128 wide in float32 (bytes)": report["full_table_bytes"]}
    print_pairs(report["file"], {**sizes, **total, "smaller by": f"{share:.1f}×"})
    print_accuracy(report["accuracy"], "with the graph")
