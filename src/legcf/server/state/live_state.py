# SPDX-License-Identifier: Apache-2.0
"""Look up what was reported since the file was written: a user's new items, what it was shown, whether it was deleted,
and items that are not available."""

import time
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import Positions
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId
from legcf.scoring.impressions import count_impressions
from legcf.server.paging import Cursor, check_page, start_of
from legcf.server.schemas import Ask
from legcf.server.state.event_log import EventLog, LogMark
from legcf.server.state.loaded_model import LoadedModel

_SECONDS_PER_MINUTE = 60
_WITHOUT_EFFECT = """
SELECT position, item, time FROM impressions AS shown WHERE user = ? AND time > coalesce(
    (SELECT max(time) FROM events WHERE events.user = shown.user AND events.item = shown.item), -1
) ORDER BY position
"""
_MODELS = 3  # that lists are read on from


@dataclass(frozen=True)
class LiveItems:
    """Hold items that a user took, or that are not available; `version` changes with every report of them."""

    items: Positions
    version: int
    disliked: Positions = field(default_factory=lambda: _positions(()))
    """What the user does not want since."""
    taken_back: Positions = field(default_factory=lambda: _positions(()))
    """What the file says of the user, and counts no more."""


def _positions(items: Iterable[int]) -> Positions:
    return np.array(sorted(items), dtype=np.int32)


NO_ITEMS = LiveItems(_positions(()), 0)


class Situation(NamedTuple):
    """Hold what was reported and matters for one request.

    `page` is where it begins and as of when. `withheld` are items that were in its list then, but must not be shown any
    more: no longer available, or taken meanwhile. A user `is_deleted` if nothing that a file has of it may be used.
    """

    news: LiveItems
    hidden: LiveItems
    page: Cursor
    is_deleted: bool
    shown: Mapping[ExternalId, float]
    withheld: Positions

    @property
    def version(self) -> Hashable:
        """Return what changes with everything that changes the answer."""
        return self.page, self.is_deleted, self.withheld.tobytes()


class LiveState:
    """Read the log for every answer, so that every worker knows what any of them has acknowledged."""

    def __init__(self, log: EventLog | None = None) -> None:
        self.log = log
        self._hidden: dict[str, tuple[NDArray[np.bool_], LiveItems]] = {}

    @property
    def accepts_events(self) -> bool:
        """Return whether there is a log at all."""
        return self.log is not None

    def situation(self, loaded: LoadedModel, ask: Ask) -> Situation:
        """Return all that matters for an answer, as of the first page of its list."""
        cursor = Cursor(loaded.tag, ask.offset) if ask.cursor is None else Cursor.decode(ask.cursor)
        check_page(ask, cursor.offset)
        if cursor.model != loaded.tag:
            raise UserError("The model has been replaced since the page before: begin again, without a cursor.")
        is_deleted, withheld = self.is_deleted(ask.user), NO_ITEMS.items
        news, hidden = self.news(loaded, ask.user, is_deleted=is_deleted), self.hidden(loaded)
        if ask.cursor is not None:
            taken = news.items if loaded.scorer.model.excludes_seen(ask.exclude_seen) else NO_ITEMS.items
            now = np.concatenate([hidden.items, taken, news.disliked])
            news, hidden = self.news(loaded, ask.user, cursor.events, is_deleted), self.hidden(loaded, cursor.changes)
            withheld = np.setdiff1d(now, np.concatenate([hidden.items, news.items, news.disliked]))
        minute, last, shown = 0, 0, dict[ExternalId, float]()
        if self.log is not None and ask.user is not None and (ask.damping or ask.max_shown is not None):
            minute = int(time.time()) // _SECONDS_PER_MINUTE if ask.cursor is None else cursor.minute
            rows = self.log.query(_WITHOUT_EFFECT, str(ask.user))
            if ask.cursor is not None:
                rows = [row for row in rows if row[0] <= cursor.impressions]
            last = rows[-1][0] if rows else 0
            impressions = ((item, at) for _, item, at in rows)
            shown = count_impressions(impressions, minute * _SECONDS_PER_MINUTE, ask.half_life)
        page = Cursor(loaded.tag, cursor.offset, news.version, hidden.version, last, minute)
        return Situation(news, hidden, page, is_deleted, shown, withheld)

    def is_deleted(self, user: ExternalId | None) -> bool:
        """Return whether a user was deleted: what a file has of it is not used, events since then are."""
        if self.log is None or user is None:
            return False
        return bool(self.log.query("SELECT 1 FROM deleted_users WHERE user = ?", str(user)))

    def deleted_users(self, loaded: LoadedModel) -> LiveItems:
        """Return the users of the file that were deleted."""
        users = loaded.scorer.model.users
        if self.log is None or users is None:
            return NO_ITEMS
        rows = self.log.query("SELECT position, user FROM deleted_users ORDER BY position")
        found = [position for _, user in rows if (position := users.find(user)) is not None]
        return LiveItems(np.array(found, dtype=np.int32), rows[-1][0]) if rows else NO_ITEMS

    def news(
        self, loaded: LoadedModel, user: ExternalId | None, until: int | None = None, is_deleted: bool = False
    ) -> LiveItems:
        """Return items of the user that the file does not hold; of a user who is not in the file, all in the log.

        With `until`, those up to this position of the log; of a deleted user, whatever the file holds, all in the log.
        They come oldest first.
        """
        if self.log is None or user is None:
            return NO_ITEMS
        find = loaded.scorer.model.items.find
        events = self.log.of_user(str(user), self._after(loaded, user, is_deleted), until)
        if not events:
            return NO_ITEMS
        taken, disliked, back = dict[int, None](), set[int](), set[int]()  # taken: in order, by the last time
        for _, item, weight in events:
            position = find(item)
            if position is None:
                continue
            if weight is not None and weight <= 0:
                taken.pop(position, None)
                back.add(position)
                (disliked.add if weight < 0 else disliked.discard)(position)
            elif position not in disliked:
                taken.pop(position, None)
                taken[position] = None
        return LiveItems(np.array(list(taken), dtype=np.int32), events[-1][0], _positions(disliked), _positions(back))

    def num_news(self, loaded: LoadedModel, ask: Ask, at_most: int) -> int:
        """Count the entries of the log that `situation` has to read, but hardly further than `at_most`."""
        if self.log is None:
            return 0
        changes = 0 if ask.cursor is None else self.log.count_changes(start_of(ask).changes, at_most)
        if ask.user is None:
            return changes
        after = self._after(loaded, ask.user, self.is_deleted(ask.user))
        return changes + self.log.count_of_user(str(ask.user), after, at_most)

    def _after(self, loaded: LoadedModel, user: ExternalId, is_deleted: bool) -> int:
        """Return the position up to which the file knows a user's events."""
        assert self.log is not None
        model = loaded.scorer.model
        is_in_file = model.users is not None and model.users.find(user) is not None and not is_deleted
        return self.log.position_in(LogMark.from_card(model.card)) if is_in_file else 0

    def hidden(self, loaded: LoadedModel, until: int | None = None) -> LiveItems:
        """Return the items that are not available now, or as of a position of the log."""
        if self.log is None:
            return NO_ITEMS
        flags, now = self._hidden_now(loaded, self.log)
        if until is None or until >= now.version:
            return now
        return LiveItems(np.flatnonzero(_changed(flags, loaded, self.log.undone_changes(until))), until)

    def _hidden_now(self, loaded: LoadedModel, log: EventLog) -> tuple[NDArray[np.bool_], LiveItems]:
        """Return which items are not available: those of the last time, and what changed since."""
        known = self._hidden.get(loaded.tag)
        if known is None:
            last, names = log.unavailable()
            flags = _changed(np.zeros(loaded.num_items, np.bool_), loaded, [(name, 0) for name in names])
            known = flags, LiveItems(np.flatnonzero(flags), last)
        flags, before = known
        changes = log.changes(before.version)
        if changes:
            flags = _changed(flags, loaded, [(item, available) for _, item, available in changes])
            known = flags, LiveItems(np.flatnonzero(flags), changes[-1][0])
        if self._hidden.get(loaded.tag) is not known:
            self._hidden = dict([*self._hidden.items(), (loaded.tag, known)][-_MODELS:])
        return known


def _changed(flags: NDArray[np.bool_], loaded: LoadedModel, changes: Iterable[tuple[str, int]]) -> NDArray[np.bool_]:
    """Return which items are not available after some changes; another thread may read those before."""
    changed = flags.copy()
    for item, available in changes:
        position = loaded.scorer.model.items.find(item)
        if position is not None:
            changed[position] = not available
    return changed
