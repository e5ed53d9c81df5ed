"""The page at `/` and the small questions it asks. Hand-written files in `web/`, nothing from outside."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi import Path as InPath
from fastapi.responses import Response
from starlette.staticfiles import StaticFiles

from legcf.ranking.popularity import at_least_one
from legcf.ranking.rows import CodedRows
from legcf.serving.gate import Json
from legcf.serving.holder import Holder, Loaded

_WEB = Path(__file__).parent / "web"
_MOST_HISTORY = 500
_Limit = Annotated[int, Query(ge=1, le=100)]
_Search = Annotated[str, Query(max_length=200, description="Part of a title or id.")]


def add_pages(app: FastAPI, holder: Holder) -> None:
    pages = {path: (_WEB / name).read_bytes() for path, name in (("/", "index.html"), ("/docs", "docs.html"))}

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return Response(pages["/"], media_type="text/html; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(pages["/docs"], media_type="text/html; charset=utf-8")

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response((_WEB / "icon.svg").read_bytes(), media_type="image/svg+xml")

    app.mount("/static", StaticFiles(directory=_WEB), name="static")
    _add_questions(app, holder)


def _add_questions(app: FastAPI, holder: Holder) -> None:
    @app.get("/api/model", include_in_schema=False)
    async def card() -> Response:
        return Json(_card(holder.current))

    @app.get("/api/items", include_in_schema=False)
    async def items(q: _Search = "", limit: _Limit = 12) -> Response:
        return Json({"items": search_items(holder.current, q, limit)})

    @app.get("/api/users", include_in_schema=False)
    async def users(q: _Search = "", limit: _Limit = 12) -> Response:
        return Json({"users": search_users(holder.current, q, limit)})

    @app.get("/api/history/{user:path}", include_in_schema=False)
    async def history(user: Annotated[str, InPath()]) -> Response:
        scorer = holder.current.scorer
        model = scorer.model
        position = None if model.users is None else model.users.find(user)
        if position is None:
            return Json({"detail": f"There is no user {user[:100]!r} in this model."}, 404)
        seen = scorer.history(position)
        order = seen[(-model.popularity[seen].astype(int)).argsort(kind="stable")][:_MOST_HISTORY]
        return Json({"stored": model.history is not None, "count": len(seen), "items": _entries(holder.current, order)})

    @app.get("/api/map", include_in_schema=False)
    async def atlas() -> Response:
        return Json(holder.current.map)


def search_items(current: Loaded, text: str, limit: int) -> list[dict[str, Any]]:
    """Items whose title holds the text, or whose id is the text; the best known first."""
    names, wanted = current.folded_names, text.casefold().strip()
    exact = current.scorer.model.items.find(text) if text else None
    found = [] if exact is None else [exact]
    for item in current.by_popularity:
        if len(found) >= limit:
            break
        if wanted in names[item] and item != exact:
            found.append(item)
    return _entries(current, found)


def search_users(current: Loaded, text: str, limit: int) -> list[int | str]:
    """Users whose id begins with the text, then those that hold it."""
    users = current.scorer.model.users
    if users is None:
        return []
    starts: list[int] = []
    inside: list[int] = []
    for position, name in enumerate(current.user_names):
        if name.startswith(text):
            starts.append(position)
            if len(starts) >= limit:
                break
        elif text in name and len(inside) < limit:
            inside.append(position)
    return users.external((starts + inside)[:limit])


def _entries(current: Loaded, positions: Any) -> list[dict[str, Any]]:
    model = current.scorer.model
    counts = at_least_one(model.popularity)
    return [
        {
            "id": model.items.external([item])[0],
            "title": model.item_name(int(item)),
            "users": round(float(counts[item])),
        }
        for item in positions
    ]


def _card(current: Loaded) -> dict[str, Any]:
    model = current.scorer.model
    rows = model.item_rows
    return {
        "card": model.card,
        "bytes": current.bytes,
        "items": len(model.items),
        "users": 0 if model.users is None else len(model.users),
        "titles": model.titles is not None,
        "users_stored": model.user_rows is not None,
        "history_stored": model.history is not None,
        "neighbours": model.neighbour_scale > 0,
        "hues": current.hues,
        "dtype": model.dtype,
        "coded": isinstance(rows, CodedRows),
        "width": rows.width,
        "codebook": len(rows.codebook) if isinstance(rows, CodedRows) else None,
        "terms": rows.columns.shape[1] if isinstance(rows, CodedRows) else None,
    }
