"""Names of items, from a second file."""

from pathlib import Path

import polars as pl

from legcf.data.columns import required_column
from legcf.data.diagnose import reading
from legcf.data.formats import scan_titles
from legcf.data.ids import IdMap
from legcf.data.options import DataOptions


def titles_from(items: IdMap, options: DataOptions) -> list[str] | None:
    """A title for every item, in item order; an item the file does not have is called by its id."""
    if options.titles is None:
        return None
    path = Path(options.titles)
    plain = options.model_copy(update={"delimiter": None})
    with reading([path], plain, None):
        frame = scan_titles(path, plain)
        names = frame.collect_schema().names()
        given = options.item_col if options.item_col in names else None
        item = required_column(names, "item", given, str(path))
        title = required_column(names, "title", options.title_col, str(path))
        titles = frame.select(pl.col(item).cast(pl.String).alias("item"), pl.col(title).cast(pl.String).alias("title"))
        return match_titles(items, titles.collect())


def match_titles(items: IdMap, titles: pl.DataFrame) -> list[str]:
    """`titles` has the columns item and title, both text; of several titles the smallest is taken."""
    wanted = pl.DataFrame({"item": [str(value) for value in items.values.tolist()]}, schema={"item": pl.String})
    known = titles.drop_nulls().group_by("item").agg(pl.col("title").min())
    joined = wanted.join(known, on="item", how="left", maintain_order="left")
    return joined.select(pl.coalesce("title", "item")).to_series().to_list()
