# SPDX-License-Identifier: Apache-2.0
"""`legcf compress`: from any embedding table to one small file that serves."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from legcf.cli.data_options import large_number, refuse_without_data, with_data_options
from legcf.cli.output import AsJson, Quiet, print_accuracy, print_json, print_pairs, print_table
from legcf.core.errors import UserError
from legcf.data.options import DataOptions

_SEEN = (
    "Vectors that were made from all pairs have seen those of the test: then both numbers are too high, and only what"
    " is kept of them counts."
)


@with_data_options
def compress(
    data_options: DataOptions,
    table: Annotated[
        Path,
        Argument(
            metavar="TABLE",
            help="Vectors: .npy, .npz (also of an `implicit` model), .parquet, .safetensors, .csv, .tsv, or text of"
            " word2vec (.txt, .vec).",
        ),
    ],
    out: Annotated[Path, Argument(metavar="OUT", help="The model file to write, e.g. model.legcf.")],
    c: Annotated[int | None, Option("-c", help="Rows of the codebook.  [default: 500]")] = None,
    t: Annotated[int | None, Option("-t", help="Weights for each user and item.  [default: 4]")] = None,
    budget: Annotated[int | None, large_number("Stored values c·d + t·N; c and t are solved from it.")] = None,
    tolerance: Annotated[
        float | None,
        Option(help="Find the smallest model that loses at most this share of validation NDCG@20; needs --data."),
    ] = None,
    items: Annotated[Path | None, Option(help="A second file with the item vectors; TABLE has the users'.")] = None,
    num_users: Annotated[int | None, Option(help="TABLE is one matrix: this many users first, then the items.")] = None,
    user_ids: Annotated[Path | None, Option(help="Ids of user rows, one per line.  [default: 0, 1, …]")] = None,
    item_ids: Annotated[Path | None, Option(help="Ids of item rows, one per line.  [default: 0, 1, …]")] = None,
    data: Annotated[
        str | None, Option(help="Interactions: ids, history, and ranking metrics before and after.")
    ] = None,
    dtype: Annotated[str, Option(help="Numbers as int8 with scales, or float16.")] = "int8",
    keep_zero_rows: Annotated[bool, Option("--keep-zero-rows", help="Store all-zero rows without weights.")] = False,
    rounds: Annotated[int, Option(min=1, max=1000, help="Rounds of pursuit and least squares.")] = 8,
    seed: Annotated[int, Option(min=0, help="Seed of the codebook's start.")] = 0,
    memory_mb: Annotated[float, Option(min=16, help="Memory beside the table and the codes, in MB.")] = 512.0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Code TABLE as a small codebook and a few weights per row, and write OUT for `legcf serve`."""
    if tolerance is not None and (budget is not None or c is not None or t is not None):
        raise UserError("--tolerance finds the sizes by itself: leave -c, -t and --budget out.")
    refuse_without_data(data, data_options, "interactions are")

    from legcf.data.reading.vector_table import read_ids, read_table
    from legcf.data.source import load_data
    from legcf.export.compress.compress import compress as code
    from legcf.export.compress.model import name_rows, write_compressed
    from legcf.export.compress.search import Trial, smallest
    from legcf.export.compress.sizes import largest_codebook

    quiet = quiet or as_json
    read = read_table(table, items, num_users)
    read = read.with_ids(read_ids(user_ids), read_ids(item_ids))
    named = name_rows(read, None if data is None else load_data(data, data_options))

    coder: Any = partial(code, named.users, named.items, seed=seed, dtype=dtype, rounds=rounds, quiet=quiet)
    coder = partial(coder, keep_zero_rows=keep_zero_rows, memory_cap_mb=memory_mb)
    trials: list[Trial] = []
    if tolerance is None:
        coded = coder(c, t, budget=budget)
    else:
        largest = largest_codebook(memory_mb)
        coded, trials = smallest(named, tolerance, lambda sizes: coder(sizes.c, sizes.t), largest, quiet)
    if coded.num_values > coded.num_values_before:
        smaller = "choose a smaller -c or -t" if budget is None else f"choose a smaller --budget than {budget:,}"
        raise UserError(
            f"The table would grow from {coded.num_values_before:,} values to {coded.num_values:,}: {smaller}, or serve"
            " the table as it is."
        )
    report = write_compressed(coded, named, out, read.origin, seed, quiet)
    report["settings"]["rounds"] = rounds
    report["trials"] = [asdict(trial) for trial in trials]
    if as_json:
        print_json(report)
    else:
        _show(report)


def _show(report: dict[str, Any]) -> None:
    settings = report["settings"]
    pairs = {
        "table": report["table"],
        "codebook": f"c = {settings['c']:,}, d = {settings['d']}, t = {settings['t']}",
        "values stored": report["values"],
        "values of the table": report["values_before"],
        "relative error": report["relative_error"],
        "error of scores": report["score_error"],
        "file (bytes)": report["bytes"],
        "table in float32 (bytes)": report["full_table_bytes"],
    }
    print_pairs(report["file"], {name: value for name, value in pairs.items() if value is not None})
    if report["trials"]:
        sizes = [(f"c = {one['c']:,}, t = {one['t']}", one["values"], f"{one['loss']:.2%}") for one in report["trials"]]
        print_table("Sizes tried", ("", "values", "validation NDCG@20 lost"), sizes)
    print_accuracy(report["accuracy"], "the table")
    if report["accuracy"]:
        typer.echo(_SEEN, err=True)
