# SPDX-License-Identifier: Apache-2.0
"""Names of items, from a second file."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.options import DataOptions
from legcf.data.reading.columns import find_column, listed, required_column
from legcf.data.reading.diagnose import Files
from legcf.data.reading.encode import as_text
from legcf.data.reading.formats import find_format, scan_titles

_WRITE_ONE = "put one above it, such as `item,title`."


def titles_from(items: IdMap, options: DataOptions) -> list[str] | None:
    """A title for every item, in item order; an item the file does not have is called by its id."""
    if options.titles is None:
        return None
    path = Path(options.titles)
    plain = options.model_copy(update={"delimiter": None, "header": None})
    with Files(plain, {path: None}).reading():
        frame = scan_titles(path, plain)
        names = frame.collect_schema().names()
        given = options.item_col if options.item_col in names else None
        found = [find_column(names, "item", given), find_column(names, "title", options.title_col)]
        if find_format(path, plain).lacks_header(names, found):
            raise UserError(f"{path} seems to have no header, for it starts with {listed(names)}: {_WRITE_ONE}")
        item = required_column(names, "item", given, str(path), _remedy)
        title = required_column(names, "title", options.title_col, str(path), _remedy)
        titles = frame.select(as_text(item).alias("item"), as_text(title).alias("title"))
        return match_titles(items, titles.collect())


def _remedy(names: Sequence[str], role: str) -> str:
    return f"Name the right one with `--{role}-col`; if the first line names no columns, {_WRITE_ONE}"


def match_titles(items: IdMap, titles: pl.DataFrame) -> list[str]:
    """`titles` has the columns item and title, both text; of several titles the smallest is taken."""
    wanted = pl.DataFrame({"item": [str(value) for value in items.values.tolist()]}, schema={"item": pl.String})
    known = titles.drop_nulls().group_by("item").agg(pl.col("title").min())
    joined = wanted.join(known, on="item", how="left", maintain_order="left")
    return joined.select(pl.coalesce("title", "item")).to_series().to_list()
