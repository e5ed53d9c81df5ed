# SPDX-License-Identifier: Apache-2.0
"""`legcf recommend`: what to show to one user, some users, or all of them."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from legcf.cli.output import AsJson, print_json, print_table
from legcf.errors import UserError
from legcf.files import written_whole


def recommend(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    user: Annotated[list[str] | None, typer.Option("--user", "-u", help="A user's id; may be repeated.")] = None,
    users: Annotated[
        Path | None, typer.Option(help="A text file with one user id per line; all users without it.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Items per user.")] = 20,
    output: Annotated[Path | None, typer.Option(help="Write to a .parquet, .csv or .jsonl file instead.")] = None,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Also recommend what a user already has.")
    ] = False,
    unknown: Annotated[
        Literal["error", "popular"],
        typer.Option(help="What a user gets whom the run does not know: an error, or popular items."),
    ] = "error",
    as_json: AsJson = False,
) -> None:
    """Print the best items for --user, or write those of many users to --output."""
    import polars as pl

    from legcf.recommender import Recommender

    if user is None and users is None and output is None:
        raise UserError("Say who to recommend for: --user ID, --users FILE, or --output FILE for all users.")
    write = _writer(output) if output is not None else None
    chosen = [*(user or []), *(_ids(users) if users is not None else [])] or None
    frame = Recommender.load(run).recommend(chosen, k, exclude_seen=not include_seen, unknown=unknown)
    if write is not None and output is not None:
        with written_whole(output) as temporary:
            write(frame, temporary)
    if as_json:
        answer = (
            {"output": str(output), "rows": frame.height}
            if output is not None
            else {"recommendations": frame.to_dicts()}
        )
        print_json(answer)
    elif output is not None:
        none_left = "" if frame.height else " Every user has every item already."
        typer.echo(f"{frame.height:,} recommendations written to {output}.{none_left}")
    else:
        for (name,), rows in frame.group_by("user", maintain_order=True):
            shown = rows.drop("user", "fallback").with_columns(pl.col("item").cast(pl.String))  # a name, not a number
            instead = "" if rows["fallback"][0] is None else ": popular items, since nothing is known of this user"
            print_table(f"For user {name}{instead}", shown.columns, shown.rows())
        served = {str(one) for one in frame["user"]}
        for one in chosen or []:
            if one not in served:
                typer.echo(f"User {one} has every item already: nothing is left to recommend.")


def _ids(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a list of user ids: {error}.") from error
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise UserError(f"{path} holds no user id; write one per line.")
    return found


def _writer(path: Path):  # type: ignore[no-untyped-def]
    writers = {
        ".parquet": lambda frame, to: frame.write_parquet(to),
        ".csv": lambda frame, to: frame.write_csv(to),
        ".jsonl": lambda frame, to: frame.write_ndjson(to),
    }
    if path.suffix not in writers:
        raise UserError(f"{path} has no known ending: use {', '.join(writers)}.")
    return writers[path.suffix]
