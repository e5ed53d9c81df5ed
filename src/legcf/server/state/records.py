# SPDX-License-Identifier: Apache-2.0
"""Find what a model file and the event log hold of users and items: for lists, exports and deletions."""

from collections.abc import Sequence, Set
from typing import Any

from legcf.data.ids import ExternalId, IdMap
from legcf.ranking.popularity import at_least_one
from legcf.server.state.event_log import EventLog
from legcf.server.state.live_state import LiveState
from legcf.server.state.loaded_model import LoadedModel

_USERS = "SELECT user FROM events UNION SELECT user FROM impressions ORDER BY user"
_ITEMS = "SELECT item FROM events UNION SELECT item FROM availability UNION SELECT item FROM impressions ORDER BY item"


class Records:
    """Read the records of one model and of the log, if there is one."""

    def __init__(self, loaded: LoadedModel, live: LiveState) -> None:
        self._loaded, self._live, self._model = loaded, live, loaded.scorer.model

    def users(self, offset: int, limit: int) -> dict[str, Any]:
        """List users: those of the file in its order, then others that the log has events or impressions of."""
        ids = self._model.users
        deleted = set(self._live.deleted_users(self._loaded).items.tolist())
        known = [] if ids is None else [user for user in range(len(ids)) if user not in deleted]
        others = self._others(_USERS, ids, deleted)
        some, rest = _page(known, others, offset, limit)
        names = [*([] if ids is None else ids.external(some)), *rest]
        entries = [
            {"user": name, "in_file": index < len(some), "events": self._count("events", "user", name)}
            for index, name in enumerate(names)
        ]
        return {"count": len(known) + len(others), "users": entries}

    def items(self, offset: int, limit: int) -> dict[str, Any]:
        """List items: those of the model in its order, then others that the log has something of."""
        model, hidden = self._model, set(self._live.hidden(self._loaded).items.tolist())
        others = self._others(_ITEMS, model.items)
        some, rest = _page(range(len(model.items)), others, offset, limit)
        counts = at_least_one(model.popularity)
        ids: list[ExternalId] = [*model.items.external(some), *rest]
        events = {} if self._live.log is None else self._live.log.count_of_items([str(name) for name in ids])
        known = [
            {"title": model.item_name(item), "users": round(float(counts[item])), "available": item not in hidden}
            for item in some
        ]
        facts = [*known, *({"title": name, "users": 0, "available": False} for name in rest)]
        entries = [
            {"item": name, **fact, "known": index < len(some), "events": events.get(str(name), 0)}
            for index, (name, fact) in enumerate(zip(ids, facts, strict=True))
        ]
        return {"count": len(model.items) + len(others), "items": entries}

    def of_user(self, user: str) -> dict[str, Any] | None:
        """Return all that is held of a user, None if that is nothing."""
        users, scorer = self._model.users, self._loaded.scorer
        position = None if users is None or self._live.is_deleted(user) else users.find(user)
        history = [] if position is None else self._model.items.external(scorer.history(position))
        stored, log = self._model.dislikes, self._live.log
        dislikes = None if position is None or stored is None else stored.of_user(position)
        events = [] if log is None else log.rows_of("events", user)
        impressions = [] if log is None else log.rows_of("impressions", user)
        if position is None and not events and not impressions:
            return None
        return {
            "user": user,
            "in_file": position is not None,
            "history": history,
            **({} if dislikes is None else {"dislikes": self._model.items.external(dislikes)}),
            "events": events,
            "impressions": impressions,
        }

    def knows_item(self, item: str) -> bool:
        """Return whether the model or the log has anything of an item."""
        tables = "events", "availability", "impressions", "items"
        return self._model.items.find(item) is not None or any(self._count(one, "item", item) for one in tables)

    def _others(self, question: str, ids: IdMap | None, deleted: Set[int] = frozenset()) -> list[str]:
        log: EventLog | None = self._live.log
        names = [] if log is None else [name for (name,) in log.query(question)]
        if ids is None:
            return names
        return [name for name in names if (position := ids.find(name)) is None or position in deleted]

    def _count(self, table: str, column: str, name: ExternalId) -> int:
        log = self._live.log
        question = f"SELECT count(*) FROM {table} WHERE {column} = ?"
        return 0 if log is None else int(log.query(question, str(name))[0][0])


def _page(known: Sequence[int], others: Sequence[str], offset: int, limit: int) -> tuple[list[int], list[str]]:
    """Cut a page out of two lists that stand one behind the other."""
    end, start = offset + limit, len(known)
    return list(known[offset:end]), list(others[max(offset - start, 0) : max(end - start, 0)])
