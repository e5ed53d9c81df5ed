# SPDX-License-Identifier: Apache-2.0
"""`legcf recommend`: what to show to one user, some users, or all of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from legcf.cli.output import AsJson, print_json, print_table
from legcf.cli.workers import join_ranks, start_ranks
from legcf.core.columns import FrameColumns
from legcf.core.errors import UserError
from legcf.core.files import written_whole

if TYPE_CHECKING:
    from legcf.scoring.listing import ListedColumns

_WRITERS = {".parquet": "write_parquet", ".csv": "write_csv", ".jsonl": "write_ndjson"}  # methods of a frame
_FEW_USERS = 1000  # who are answered for one by one; more are ranked together, which is worth opening the run for


def recommend(
    run: Annotated[Path, Argument(metavar="RUN", help="A run folder, or a model file.")],
    user: Annotated[list[str] | None, Option("--user", "-u", help="A user's id; may be repeated.")] = None,
    users: Annotated[Path | None, Option(help="A text file with one user id per line; all users without it.")] = None,
    k: Annotated[int, Option("-k", help="Items per user.")] = 20,
    output: Annotated[
        Path | None, Option(help="Write to a .parquet, .csv or .jsonl file instead, or to a folder of Parquet parts.")
    ] = None,
    include_seen: Annotated[bool, Option("--include-seen", help="Also recommend what a user already has.")] = False,
    unknown: Annotated[
        Literal["error", "popular"],
        Option(help="What a user gets whom the run does not know: an error, or popular items."),
    ] = "error",
    workers: Annotated[
        int, Option(min=1, help="Processes of this machine that share the users; each writes its part of a folder.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Print the best items for --user, or write those of many users to --output."""
    from legcf.core import distributed

    if user is None and users is None and output is None:
        raise UserError("Say who to recommend for: --user ID, --users FILE, or --output FILE for all users.")
    rank, count = distributed.rank_and_world_size()
    most = max(count, workers)
    target = None if output is None else _target(output, rank, most)
    if target is None and most > 1:
        raise UserError("Several workers write a folder with a part each: name one with --output FOLDER.")
    if target is not None and target.suffix not in _WRITERS:
        raise UserError(f"{target} has no known ending: use {', '.join(_WRITERS)}.")
    named_users = [*(user or []), *(_ids(users) if users is not None else [])] or None
    if start_ranks(workers):
        return
    join_ranks(meet=False)
    columns = _recommended(run, named_users, (rank, count), k, False if include_seen else None, unknown)
    rows = len(columns[FrameColumns.USER])
    if target is not None:
        import polars as pl

        types = {FrameColumns.RANK: pl.Int32, FrameColumns.SCORE: pl.Float32, FrameColumns.FALLBACK: pl.String}
        write = getattr(pl.DataFrame(columns, schema_overrides=types), _WRITERS[target.suffix])
        with written_whole(target) as temporary:
            write(temporary)
    if rank > 0:
        return
    if as_json:
        parts = {} if count == 1 else {"part": str(target), "parts": count}
        written = {"output": str(output), "rows": rows, **parts}
        print_json({"recommendations": _rows(columns)} if output is None else written)
    elif target is not None:
        none_left = "" if rows else " Every user has every item already."
        others = "" if count == 1 else f" The other {count - 1} of {count} workers write their own parts beside it."
        typer.echo(f"{rows:,} recommendations written to {target}.{none_left}{others}")
    else:
        _show(columns, named_users or [])


def _recommended(
    run: Path,
    named_users: list[str] | None,
    rank_and_count: tuple[int, int],
    k: int,
    exclude_seen: bool | None,
    unknown: Literal["error", "popular"],
) -> "ListedColumns":
    """Answer from a model file, or from that of a run; for very many users, and without one, from the run itself."""
    from legcf.scoring.listing import list_recommendations
    from legcf.scoring.run_files import open_answers

    rank, count = rank_and_count
    few = named_users is not None and len(named_users) <= _FEW_USERS
    scorer = open_answers(run) if few or run.is_file() else None
    if scorer is not None:
        everyone = named_users or (scorer.model.users.values.tolist() if scorer.model.users is not None else [])
        asked = named_users if count == 1 else everyone[rank::count]
        return list_recommendations(scorer, asked, k, exclude_seen, unknown == "popular")
    from legcf.recommender import Recommender

    model = Recommender.load(run)
    # Not a range of users: busy ones, who take longer, may stand together.
    asked = named_users if count == 1 else (named_users or model.users.values.tolist())[rank::count]
    frame = model.recommend(asked, k, exclude_seen=exclude_seen, unknown=unknown)
    return frame.to_dict(as_series=False)


def _target(output: Path, rank: int, count: int) -> Path:
    """Return the file that this rank writes: a part, if the output is a folder or there are others who write."""
    if output.is_file() or (output.suffix and not output.is_dir()):
        if count > 1:
            instead = f"name a folder for their parts instead of {output}."
            raise UserError(f"{count} workers cannot write one file: {instead}")
        return output
    names = [f"part-{number:05}-of-{count:05}.parquet" for number in range(count)]
    there = [path.name for path in output.iterdir() if not path.name.startswith(".")] if output.is_dir() else []
    others = sorted({*there} - {*names})
    if others:
        raise UserError(f"{output} has other files in it, such as {others[0]}: name another folder.")
    return output / names[rank]


def _rows(columns: "ListedColumns") -> list[dict[str, object]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _show(columns: "ListedColumns", asked: list[str]) -> None:
    of_users: dict[object, list[dict[str, object]]] = {}
    for row in _rows(columns):
        row[FrameColumns.ITEM] = str(row[FrameColumns.ITEM])  # a name, not a number
        of_users.setdefault(row.pop(FrameColumns.USER), []).append(row)
    for name, rows in of_users.items():
        marks = [row.pop(FrameColumns.FALLBACK) for row in rows]
        instead = "" if marks[0] is None else ": popular items, since nothing is known of this user"
        print_table(f"For user {name}{instead}", list(rows[0]), [list(row.values()) for row in rows])
    served = {str(one) for one in columns[FrameColumns.USER]}
    for one in asked:
        if one not in served:
            typer.echo(f"User {one} has every item already: nothing is left to recommend.")


def _ids(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a list of user ids: {error}.") from error
    ids = [line.strip() for line in lines if line.strip()]
    if not ids:
        raise UserError(f"{path} holds no user id; write one per line.")
    return ids
