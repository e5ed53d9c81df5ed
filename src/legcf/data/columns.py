"""Which column of a table is which: the names people use, in one place."""

from collections.abc import Sequence
from dataclasses import dataclass

from legcf.data.options import DataOptions
from legcf.errors import UserError

SYNONYMS: dict[str, tuple[str, ...]] = {
    "user": ("user", "user_id", "userid", "uid", "users", "customer", "customer_id", "visitor_id", "visitorid",
             "account_id", "member_id", "reviewer_id", "reviewerid", "session_id", "u"),
    "item": ("item", "item_id", "itemid", "iid", "items", "movie", "movie_id", "movieid", "product", "product_id",
             "productid", "asin", "parent_asin", "isbn", "book_id", "business_id", "artist_id", "artistid", "track_id",
             "song_id", "article_id", "venue_id", "location_id", "i"),
    "rating": ("rating", "ratings", "score", "stars", "rate", "value", "overall", "weight"),
    "time": ("timestamp", "time", "date", "datetime", "unix_time", "unixreviewtime", "created_at", "event_time", "t"),
    "title": ("title", "name", "movie_title", "item_name", "product_name", "item_title"),
}  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """Names of the columns in use, as they stand in the file."""

    user: str
    item: str
    rating: str | None = None
    time: str | None = None
    title: str | None = None


def find_columns(names: Sequence[str], options: DataOptions, where: str) -> Columns:
    return Columns(
        user=required_column(names, "user", options.user_col, where),
        item=required_column(names, "item", options.item_col, where),
        rating=_column(names, "rating", options.rating_col, where),
        time=_column(names, "time", options.time_col, where),
        title=_column(names, "title", options.title_col if options.titles is None else None, where),
    )


def required_column(names: Sequence[str], role: str, given: str | None, where: str) -> str:
    column = _column(names, role, given, where)
    if column is None:
        raise UserError(
            f"{where} has no column that looks like {role} ids: its columns are {_listed(names)}. "
            f"Name the right one with `--{role}-col`."
        )
    return column


def _column(names: Sequence[str], role: str, given: str | None, where: str) -> str | None:
    if given is not None:
        if given not in names:
            raise UserError(
                f"{where} has no column {given!r} (asked for as the {role} column): it has {_listed(names)}."
            )
        return given
    simple = {_simple(name): name for name in reversed(names)}
    return next((simple[synonym] for synonym in SYNONYMS[role] if synonym in simple), None)


def _simple(name: str) -> str:
    return name.strip().strip("\ufeff").lower().replace(" ", "_").replace("-", "_")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
