# SPDX-License-Identifier: Apache-2.0
"""Long work as plain data, so that it can be done in this process or in another."""

from collections.abc import Iterator, Sequence
from typing import Any

from legcf.core.errors import UserError
from legcf.server import answers
from legcf.server.encoding import encode
from legcf.server.item_map import item_map
from legcf.server.schemas import Ask
from legcf.server.state.live_state import LiveState
from legcf.server.state.loaded_model import LoadedModel

LIGHT = 500  # units of `weight`, about a millisecond: up to it a request is answered at once, in the event loop
_PIECE = 2000  # units of `weight` in one job, unless one ask alone has more: nobody else is answered meanwhile
_EXPLAINED = 20  # units to explain an item; it took 25–34 µs, and 20 of them are still light
_LOOKED_AT = 4  # items that caps look at in a unit; at worst they look at all

Job = dict[str, Any]


def weight(ask: Ask, num_items: int) -> int:
    """Estimate how long an answer takes from a model of so many items.

    The unit is one item more in the answer or in a list of the request: about 0.5 µs, measured on one core with
    movielens-small, beside about 0.1 ms that every answer takes.
    """
    compared = ask.k * ask.k // 10 if ask.diversity else 0
    looked_at = num_items // _LOOKED_AT if ask.cap else 0
    values = sum(len(condition) for condition in ask.filter.values() if isinstance(condition, list))
    listed = len(ask.items) + len(ask.deny) + len(ask.allow or ()) + values
    return ask.k + compared + looked_at + _EXPLAINED * ask.explain + listed


def recommend_jobs(asks: Sequence[Ask], popular_for_unknown: bool, num_items: int) -> Iterator[Job]:
    """Yield all asks in their order, some in each job: small enough that others hardly wait for one."""
    piece: list[dict[str, Any]] = []
    size = 0
    for ask in asks:
        if piece and size + weight(ask, num_items) > _PIECE:
            yield {"do": "recommend", "asks": piece, "popular": popular_for_unknown}
            piece, size = [], 0
        piece.append(ask.model_dump())
        size += weight(ask, num_items)
    yield {"do": "recommend", "asks": piece, "popular": popular_for_unknown}


def map_job() -> Job:
    return {"do": "map"}


def perform(loaded: LoadedModel, job: Job, latest: LiveState) -> tuple[bytes, bytes]:
    return _WORK[job["do"]](loaded, job, latest)


def _recommend(loaded: LoadedModel, job: Job, latest: LiveState) -> tuple[bytes, bytes]:
    """Results and errors of all asks, one of them null for each: two lists in JSON, without their brackets."""
    results, errors = [], []
    hidden = latest.hidden(loaded)
    for entry in job["asks"]:
        try:
            ask = Ask.model_construct(**entry)
            result = encode(answers.recommend(loaded, ask, job["popular"], latest.news(loaded, ask.user), hidden))
            error = b"null"
        except UserError as refusal:
            status, detail = answers.failure(refusal)
            result, error = b"null", encode({"status": status, "detail": detail})
        results.append(result)
        errors.append(error)
    return b",".join(results), b",".join(errors)


def _map(loaded: LoadedModel, job: Job, latest: LiveState) -> tuple[bytes, bytes]:
    return encode(item_map(loaded.scorer, loaded.by_popularity)), b""


_WORK = {"recommend": _recommend, "map": _map}
