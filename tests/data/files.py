# SPDX-License-Identifier: Apache-2.0
"""The same small real-looking data in every format, and folders of LightGCN text."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

ComparisonRow = tuple[str, str, str, str]

# Ids beyond 2^53, ratings with fractions, and one repeated pair with another time.
ROWS: list[ComparisonRow] = [
    (str(9_007_199_254_740_993 + user), str(item), f"{1 + (user + item) % 5}.0", str(1_000_000_000 + 7 * user + item))
    for user in range(12)
    for item in range(30)
    if (user * 7 + item * 3) % 5 < 3
]
ROWS.append((ROWS[0][0], ROWS[0][1], "5.0", "1000000999"))
HEADER = ("user_id", "item_id", "rating", "timestamp")


def _delimited(
    delimiter: str, header: Sequence[str] | None = HEADER
) -> Callable[[Path, Sequence[ComparisonRow]], None]:
    def write(path: Path, rows: Sequence[ComparisonRow]) -> None:
        lines = [delimiter.join(row) for row in ([header] if header else []) + list(rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    return write


def _parquet(path: Path, rows: Sequence[ComparisonRow]) -> None:
    frame = pl.DataFrame(rows, schema=HEADER, orient="row")
    frame.with_columns(
        pl.col("user_id", "item_id", "timestamp").cast(pl.Int64), pl.col("rating").cast(pl.Float64)
    ).write_parquet(path)


def _json_lines(path: Path, rows: Sequence[ComparisonRow]) -> None:
    lines = [
        json.dumps({"user_id": int(user), "item_id": int(item), "rating": float(rating), "timestamp": int(time)})
        for user, item, rating, time in rows
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


WRITERS: dict[str, Callable[[Path, Sequence[ComparisonRow]], None]] = {
    "ratings.csv": _delimited(","),
    "ratings.tsv": _delimited("\t"),
    "ratings.parquet": _parquet,
    "ratings.jsonl": _json_lines,
    "ratings.inter": _delimited("\t", ("user_id:token", "item_id:token", "rating:float", "timestamp:float")),
    "ratings.dat": _delimited("::", None),
    "u.data": _delimited("\t", None),
}


def write_table(folder: Path, name: str, rows: Sequence[ComparisonRow] = ROWS) -> Path:
    path = folder / name
    WRITERS[name](path, rows)
    return path


def compressed(path: Path) -> Path:
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def write_lightgcn(folder: Path, train: str | bytes, test: str | bytes | None = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("train.txt", train), ("test.txt", test)):
        if content is not None:
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder
