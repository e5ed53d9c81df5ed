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

LIGHT = 500  # of `weight`: a few milliseconds, less than handing the work over would be worth
_PIECE = 2000

Job = dict[str, Any]


def weight(ask: Ask) -> int:
    """How long an answer takes, roughly: in items written down."""
    compared = ask.k * ask.k // 10 if ask.diversity else 0
    values = sum(len(condition) for condition in ask.filter.values() if isinstance(condition, list))
    return ask.k + compared + 20 * ask.explain + len(ask.items) + len(ask.deny) + len(ask.allow or ()) + values


def recommend_jobs(asks: Sequence[Ask], popular_for_unknown: bool) -> Iterator[Job]:
    """All asks in their order, some in each job: small enough that others hardly wait for one."""
    piece: list[dict[str, Any]] = []
    size = 0
    for ask in asks:
        if piece and size + weight(ask) > _PIECE:
            yield {"do": "recommend", "asks": piece, "popular": popular_for_unknown}
            piece, size = [], 0
        piece.append(ask.model_dump())
        size += weight(ask)
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
