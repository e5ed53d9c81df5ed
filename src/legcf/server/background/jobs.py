# SPDX-License-Identifier: Apache-2.0
"""Describe long work as plain data, so that it can be done in this process or in another."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from legcf.core.errors import UserError
from legcf.server import answers
from legcf.server.encoding import encode
from legcf.server.item_map import item_map
from legcf.server.paging import start_of
from legcf.server.schemas import MAX_OFFSET, Ask, AskMany, complaints
from legcf.server.state.live_state import LiveState
from legcf.server.state.loaded_model import LoadedModel

Job = dict[str, Any]
CARD: Job = {"do": "card"}
MAP: Job = {"do": "map"}

LIGHT = 500  # units of `weight`, about a millisecond: up to it a request is answered at once, in the event loop
_JOB_WEIGHT = 2000  # units of `weight` in one job, unless one ask alone has more: others wait until a job is done
_EXPLAINED = 20  # units for an explained item; each took 25–34 µs, so that 25 of them are light
_LOOKED_AT = 4  # items that caps look at in one unit; at worst they look at all
_SPELT = 2  # characters of features that are coded in one unit


def weight(ask: Ask, num_items: int) -> int:
    """Estimate how long an answer takes from a model of so many items.

    The unit is one item more in the answer or in a list of the request: about 0.5 µs, measured on one core with
    movielens-small, beside about 0.1 ms that every answer takes.
    """
    end = ask.k + min(start_of(ask).offset, MAX_OFFSET)
    compared = end * ask.k // 10 if ask.diversity else 0
    looked_at = num_items // _LOOKED_AT if ask.cap else 0
    values = sum(len(condition) for condition in ask.filter.values() if isinstance(condition, list))
    listed = len(ask.items) + len(ask.deny) + len(ask.allow or ()) + len(ask.shown) + values
    spelt = sum(len(str(value)) for value in ask.features.values()) // _SPELT
    return end + compared + looked_at + _EXPLAINED * ask.explain + listed + spelt


def recommend_jobs(asks: Sequence[Ask], popular_for_unknown: bool, num_items: int) -> Iterator[Job]:
    """Yield all asks in their order, some in each job: small enough that others hardly wait for one."""
    entries: list[dict[str, Any]] = []
    total = 0
    for ask in asks:
        if entries and total + weight(ask, num_items) > _JOB_WEIGHT:
            yield {"do": "recommend", "asks": entries, "popular": popular_for_unknown}
            entries, total = [], 0
        entries.append(ask.model_dump())
        total += weight(ask, num_items)
    yield {"do": "recommend", "asks": entries, "popular": popular_for_unknown}


def split_job(body: bytes, popular_for_unknown: bool) -> Job:
    """Return the job that reads the asks of a long body, which takes milliseconds, and cuts them into jobs."""
    return {"do": "split", "body": body.decode("utf-8", "surrogateescape"), "popular": popular_for_unknown}


def perform(loaded: LoadedModel, job: Job | bytes, live: LiveState) -> tuple[bytes, bytes]:
    """Do the job; return its answer as JSON and, of recommendations, the errors."""
    if isinstance(job, bytes):
        job = json.loads(job)
        assert isinstance(job, dict)
    if job["do"] == "split":
        return _split(loaded, job)
    if job["do"] == "card":
        return encode(answers.model_card(loaded, live.accepts_events)), b""
    if job["do"] == "map":
        return encode(item_map(loaded.scorer, loaded.by_popularity)), b""
    return _recommend(loaded, job, live)


def _split(loaded: LoadedModel, job: Job) -> tuple[bytes, bytes]:
    """Return jobs in JSON, each in a line, and what is wrong with the body, nothing if it is right."""
    try:
        asks = AskMany.model_validate_json(job["body"].encode("utf-8", "surrogateescape")).requests
    except ValidationError as error:
        return b"null", complaints("body", error).encode("utf-8", "backslashreplace")
    return b"\n".join(encode(one) for one in recommend_jobs(asks, job["popular"], loaded.num_items)), b""


def _recommend(loaded: LoadedModel, job: Job, live: LiveState) -> tuple[bytes, bytes]:
    """Return results and errors of all asks, one of them null for each: two lists in JSON, without their brackets."""
    results, errors = [], []
    for entry in job["asks"]:
        try:
            ask = Ask.model_construct(**entry)
            result = encode(answers.recommend(loaded, ask, job["popular"], live.situation(loaded, ask)))
            error = b"null"
        except UserError as refusal:
            status, detail = answers.failure(refusal)
            result, error = b"null", encode({"status": status, "detail": detail})
        results.append(result)
        errors.append(error)
    return b",".join(results), b",".join(errors)
