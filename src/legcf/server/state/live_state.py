# SPDX-License-Identifier: Apache-2.0
"""Look up what was reported since the file was written: a user's new items, and items that are not available."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import Positions
from legcf.data.ids import ExternalId
from legcf.server.state.event_log import EventLog, LogMark
from legcf.server.state.loaded_model import LoadedModel

_MODELS = 2  # the one in use, and the one before it while requests end


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


class LiveState:
    """Read the log for every answer, so that every worker knows what any of them has acknowledged."""

    def __init__(self, log: EventLog | None = None) -> None:
        self.log = log
        self._hidden: dict[str, tuple[NDArray[np.bool_], LiveItems]] = {}

    @property
    def accepts_events(self) -> bool:
        """Return whether there is a log at all."""
        return self.log is not None

    def news(self, loaded: LoadedModel, user: ExternalId | None) -> LiveItems:
        """Return items of the user that the file does not hold; of a user who is not in the file, all in the log."""
        if self.log is None or user is None:
            return NO_ITEMS
        model = loaded.scorer.model
        is_in_file = model.users is not None and model.users.find(user) is not None
        after = self.log.position_in(LogMark.from_card(model.card)) if is_in_file else 0
        events = self.log.of_user(str(user), after)
        if not events:
            return NO_ITEMS
        taken, disliked, back = set[int](), set[int](), set[int]()
        for _, item, weight in events:
            position = model.items.find(item)
            if position is None:
                continue
            if weight is not None and weight <= 0:
                taken.discard(position)
                back.add(position)
                (disliked.add if weight < 0 else disliked.discard)(position)
            elif position not in disliked:
                taken.add(position)
        return LiveItems(_positions(taken), events[-1][0], _positions(disliked), _positions(back))

    def hidden(self, loaded: LoadedModel) -> LiveItems:
        """Return the items that are not available now."""
        if self.log is None:
            return NO_ITEMS
        flags, before = self._hidden.get(loaded.tag) or (np.zeros(loaded.num_items, np.bool_), NO_ITEMS)
        changes = self.log.changes(before.version)
        if not changes and loaded.tag in self._hidden:
            return before
        for _, item, available in changes:
            position = loaded.scorer.model.items.find(item)
            if position is not None:
                flags[position] = not available
        now = LiveItems(np.flatnonzero(flags), changes[-1][0] if changes else 0)
        self._hidden[loaded.tag] = flags, now
        self._hidden = dict(list(self._hidden.items())[-_MODELS:])
        return now
