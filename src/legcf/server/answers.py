# SPDX-License-Identifier: Apache-2.0
"""Make answers of the API: look ids up, read filters, add reasons, everything ready for JSON."""

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, IdMap
from legcf.scoring.explain import Explanation, explain, explain_popular
from legcf.scoring.scorer import Request, Scored, Scorer
from legcf.server.item_map import hues
from legcf.server.paging import following
from legcf.server.schemas import Ask
from legcf.server.state.live_state import LiveItems, Situation
from legcf.server.state.loaded_model import LoadedModel


class UnknownId(UserError):
    """Refuse an id that the model does not know."""

    def __init__(self, kind: str, identifier: ExternalId) -> None:
        super().__init__(f"There is no {kind} {str(identifier)[:100]!r} in this model.")


def recommend(loaded: LoadedModel, ask: Ask, popular_for_unknown: bool, live: Situation) -> dict[str, Any]:
    """Return what is recommended, and why. Unknown users are an error unless popular items will do for them, or there
    are events or features of theirs."""
    scorer = loaded.scorer
    model = scorer.model
    welcome = popular_for_unknown or live.news.version > 0 or bool(ask.features)
    user = _user_in_model(scorer, ask, welcome, live.is_deleted)
    items, not_had = _split(model.items, ask.items)
    allow, not_allowed = (None, []) if ask.allow is None else _split(model.items, ask.allow)
    deny, not_denied = _split(model.items, ask.deny)
    shown, not_shown = _shown(model.items, ask, live)
    request = Request(
        user, items, ask.k, ask.exclude_seen, allow, deny, ask.filter, ask.cap, ask.diversity,
        live.page.offset, shown, ask.damping, ask.max_shown, ask.features,
    )  # fmt: skip
    profile = scorer.profile(request, live.news.items, live.news.taken_back)
    page = scorer.recommend_for_profile(profile, request, np.append(live.hidden.items, live.news.disliked))
    best_items = page
    if len(live.withheld):
        withheld = set(model.items.external(live.withheld))
        best_items = [entry for entry in page if entry.id not in withheld]
    fallback = scorer.fallback(profile)
    explained = best_items[: ask.explain]
    positions = [model.items.position(entry.id) for entry in explained]
    why = explain(scorer, profile, positions) if fallback is None else explain_popular(explained)
    if user is not None and model.users is not None:  # as it was in the training data, not as it was typed
        user = model.users.external([model.users.position(user)])[0]
    return {
        "model": loaded.tag,
        "user": ask.user if user is None else user,
        "items": [_item(entry) for entry in best_items],
        "why": [_why(part) for part in why],
        "fallback": fallback,
        "ignored": [*not_had, *not_allowed, *not_denied, *not_shown],
        "next": following(ask, live.page, len(page)),
    }


def failure(error: UserError) -> tuple[int, str]:
    """Return status and sentence: what this model does not know is not found, what it cannot do is a conflict."""
    return (404 if isinstance(error, UnknownId) else 409), str(error)


def similar(loaded: LoadedModel, kind: Literal["item", "user"], to: str, k: int, hidden: LiveItems) -> dict[str, Any]:
    """Return the items or users most like one of them; users that are hidden are as if the model had none of them."""
    model, is_user = loaded.scorer.model, kind == "user"
    ids = model.users if is_user else model.items
    position = None if ids is None else ids.find(to)
    if ids is not None and (position is None or (is_user and position in hidden.items)):
        raise UnknownId(kind, to)
    find = loaded.scorer.similar_users if is_user else loaded.scorer.similar_items
    like = find(to, k, hidden.items)  # says so if the model stores no users
    assert ids is not None
    assert position is not None
    return {"model": loaded.tag, "to": ids.external([position])[0], "items": [_item(entry) for entry in like]}


def model_card(loaded: LoadedModel, accepts_events: bool) -> dict[str, Any]:
    """Return what the page says of a model."""
    model = loaded.scorer.model
    rows = model.item_rows
    return {
        "model": loaded.tag,
        "card": model.card,
        "bytes": loaded.file_bytes,
        "items": len(model.items),
        "users": 0 if model.users is None else len(model.users),
        "titles": model.titles is not None,
        "users_stored": model.user_rows is not None,
        "accepts_events": accepts_events,
        "history_stored": model.history is not None,
        "hues": hues(model),
        "attributes": [] if model.attributes is None else model.attributes.described(),
        "user_features": []
        if model.user_encoder is None
        else [{"name": column.name, "kind": column.kind} for column in model.user_encoder.coder.columns],
        "dtype": model.dtype,
        "coded": rows.codes is not None,
        "width": rows.width,
        "codebook": rows.facts.get("c"),
        "terms": rows.facts.get("t"),
    }


def _user_in_model(scorer: Scorer, ask: Ask, strangers_welcome: bool, is_deleted: bool) -> ExternalId | None:
    users = scorer.model.users
    if ask.user is None or (users is not None and users.find(ask.user) is not None and not is_deleted):
        return ask.user
    if strangers_welcome:
        return None
    if users is None:
        raise UserError("This model stores no users: POST the user's items to /recommend instead.")
    raise UnknownId("user", ask.user)


def _split(items: IdMap, ids: Iterable[ExternalId]) -> tuple[list[ExternalId], list[ExternalId]]:
    """Return the ids that the model knows, and those that it does not."""
    known: list[ExternalId] = []
    unknown: list[ExternalId] = []
    for item in ids:
        (unknown if items.find(item) is None else known).append(item)
    return known, unknown


def _shown(items: IdMap, ask: Ask, live: Situation) -> tuple[dict[ExternalId, float], list[ExternalId]]:
    """Return how often items were shown, as the log and the request say together, and those of the request that the
    model does not know."""
    known, unknown = _split(items, ask.shown)
    counts = {item: count for item, count in live.shown.items() if items.find(item) is not None}
    for item in known:
        counts[item] = counts.get(item, 0.0) + ask.shown[str(item)]
    return counts, unknown


def _item(entry: Scored) -> dict[str, Any]:
    return {"id": entry.id, "title": entry.name, "score": entry.score}


def _why(part: Explanation) -> dict[str, Any]:
    shared = [
        {"meta": entry.meta, "contribution": entry.contribution, "examples": [_item(item) for item in entry.examples]}
        for entry in part.shared
    ]
    facts = {"item": part.item, "text": part.text, "score": part.score, "neighbours": part.list_score}
    return {**facts, "shared": shared, "because": [_item(item) for item in part.because]}
