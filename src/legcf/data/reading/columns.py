# SPDX-License-Identifier: Apache-2.0
"""Find out which column of a table is which, by the names people use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from legcf.core.errors import UserError
from legcf.data.options import DataOptions
from legcf.data.preparing.splits import find_protocol

SYNONYMS: dict[str, tuple[str, ...]] = {
    "user": ("user", "user_id", "userid", "uid", "users", "customer", "customer_id", "visitor_id", "visitorid",
             "account_id", "member_id", "reviewer_id", "reviewerid", "session_id", "u"),
    "item": ("item", "item_id", "itemid", "iid", "items", "movie", "movie_id", "movieid", "product", "product_id",
             "productid", "asin", "parent_asin", "isbn", "book_id", "business_id", "artist_id", "artistid", "track_id",
             "song_id", "article_id", "venue_id", "location_id", "i"),
    "rating": ("rating", "ratings", "score", "stars", "rate", "value", "overall", "weight"),
    "time": ("timestamp", "time", "date", "datetime", "unix_time", "unixreviewtime", "created_at", "event_time", "t",
             *(f"{done}_at" for done in ("purchased", "bought", "ordered", "viewed", "clicked", "watched", "played",
                                         "listened", "rated", "reviewed", "occurred", "sold", "read", "visited")),
             *(f"{what}_{when}" for what in ("event", "purchase", "order", "transaction", "invoice", "review")
               for when in ("time", "date", "timestamp", "datetime")), "ts"),
    "title": ("title", "name", "movie_title", "item_name", "product_name", "item_title"),
}  # fmt: skip

Remedy = Callable[[Sequence[str], str], str]


@dataclass(frozen=True)
class Columns:
    """Name the columns in use, as the file calls them."""

    user: str
    item: str
    rating: str | None = None
    time: str | None = None
    title: str | None = None
    weight: str | None = None
    event: str | None = None


def find_columns(names: Sequence[str], options: DataOptions, where: str, remedy: Remedy | None = None) -> Columns:
    """Return the columns that are used, ratings and titles also where they are only there."""
    time = _column(names, "time", options.time_col, where)
    user, item = (
        required_column(names, role, asked, where, remedy)
        for role, asked in (("user", options.user_col), ("item", options.item_col))
    )
    if user == item:
        raise UserError(f"{where}: column {user!r} cannot hold users and items; say `--user-col` and `--item-col`.")
    return Columns(
        user=user,
        item=item,
        rating=_column(names, "rating", options.rating_col, where),
        time=time if _needs_time(options) else None,
        title=_column(names, "title", options.title_col, where) if options.titles is None else None,
        weight=None if options.weight_col is None else _column(names, "weight", options.weight_col, where),
        event=None if options.event_col is None else _column(names, "event", options.event_col, where),
    )


def required_column(
    names: Sequence[str], role: str, asked: str | None, where: str, remedy: Remedy | None = None
) -> str:
    """Return the column of a role or refuse the table; `remedy` says what to do where none is found."""
    column = _column(names, role, asked, where)
    if column is None:
        advice = f"Name the right one with `--{role}-col`." if remedy is None else remedy(names, role)
        raise UserError(f"{where} has no column that looks like {role} ids: its columns are {listed(names)}. {advice}")
    return column


def find_column(names: Sequence[str], role: str, asked: str | None) -> str | None:
    """Return the column of a role: `asked` if it exists, else one with a usual name, else None."""
    if asked is not None:
        return asked if asked in names else None
    simple = {
        name.strip().strip("\ufeff").lower().replace(" ", "_").replace("-", "_"): name for name in reversed(names)
    }
    # The columns of a table without header go by number.
    if list(names) == [str(number) for number in range(1, len(names) + 1)]:
        simple |= {role: name for role, name in zip(("user", "item"), names, strict=False)}
    return next((simple[synonym] for synonym in SYNONYMS[role] if synonym in simple), None)


def listed(names: Sequence[str]) -> str:
    text = ", ".join(repr(name) for name in names[:12])
    return text + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _column(names: Sequence[str], role: str, asked: str | None, where: str) -> str | None:
    column = find_column(names, role, asked)
    if asked is not None and column is None:
        raise UserError(f"{where} has no column {asked!r} (asked for as the {role} column): it has {listed(names)}.")
    if f"{column}_duplicated_0" in names and (asked is not None or role in ("user", "item")):  # as polars calls it
        raise UserError(f"{where} has two columns {column!r}: give the one that is not the {role} column another name.")
    return column


def _needs_time(options: DataOptions) -> bool:
    if options.time_col is not None or options.date_format is not None or options.half_life is not None:
        return True
    return options.protocol is not None and find_protocol(options.protocol).needs_time
