# SPDX-License-Identifier: Apache-2.0
"""What the server was told since its file was written: a user's new items, and items that are not available."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import Positions
from legcf.data.ids import ExternalId
from legcf.server.state.event_log import EventLog, LogMark
from legcf.server.state.loaded_model import LoadedModel

_MODELS = 2  # the one in use, and the one before it while requests end


@dataclass(frozen=True)
class RecentEvents:
    """`version` changes with every event of the user."""

    items: Positions
    version: int


@dataclass(frozen=True)
class UnavailableItems:
    """Items that are not available; `version` changes with every change."""

    items: Positions
    version: int


_NONE = np.zeros(0, dtype=np.int32)
NO_NEWS, NOTHING_HIDDEN = RecentEvents(_NONE, 0), UnavailableItems(_NONE, 0)


class LiveState:
    """Looked up for every answer, so every worker knows what any of them has acknowledged."""

    def __init__(self, log: EventLog | None = None) -> None:
        self.log = log
        self._hidden: dict[str, tuple[NDArray[np.bool_], UnavailableItems]] = {}

    @classmethod
    def of(cls, folder: str | None) -> "LiveState":
        return cls(None if folder is None else EventLog(folder))

    @property
    def accepts_events(self) -> bool:
        """Whether there is a log at all."""
        return self.log is not None

    def close(self) -> None:
        if self.log is not None:
            self.log.close()

    def news(self, loaded: LoadedModel, user: ExternalId | None) -> RecentEvents:
        """Items of the user that the file does not hold. What the file knows of nobody it knows of no event either."""
        if self.log is None or user is None:
            return NO_NEWS
        model = loaded.scorer.model
        known = model.users is not None and model.users.find(user) is not None
        after = self.log.position_in(LogMark.from_card(model.card)) if known else 0
        events = self.log.of_user(str(user), after)
        places = {place for _, item in events if (place := model.items.find(item)) is not None}
        return RecentEvents(np.array(sorted(places), dtype=np.int32), events[-1][0]) if events else NO_NEWS

    def hidden(self, loaded: LoadedModel) -> UnavailableItems:
        if self.log is None:
            return NOTHING_HIDDEN
        flags, before = self._hidden.get(loaded.tag) or (
            np.zeros(len(loaded.scorer.model.items), np.bool_),
            NOTHING_HIDDEN,
        )
        changes = self.log.changes(before.version)
        if not changes and loaded.tag in self._hidden:
            return before
        for _, item, available in changes:
            place = loaded.scorer.model.items.find(item)
            if place is not None:
                flags[place] = not available
        now = UnavailableItems(np.flatnonzero(flags), changes[-1][0] if changes else 0)
        self._hidden[loaded.tag] = flags, now
        self._hidden = dict(list(self._hidden.items())[-_MODELS:])
        return now
