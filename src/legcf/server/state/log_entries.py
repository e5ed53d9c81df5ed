# SPDX-License-Identifier: Apache-2.0
"""Name what is written into the event log: each entry is a report, or takes reports back.

They are tuples, which are made in a third of the time that frozen data classes take: a request brings a thousand.
"""

import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

TAKEN_BACK = 0.0
"""The weight of an event after which earlier ones of the same user and item count no more."""

_NAME_BYTES = 16  # at random: no two events get the same


class Event(NamedTuple):
    """Record that a user took an item. Ids are text, whatever they are in the model; `time` is seconds since 1970.

    `kind` is what it was called. A `weight` below 0 is a dislike, `TAKEN_BACK` takes back what was before it; None
    counts as the average pair.
    """

    id: str
    user: str
    item: str
    time: float
    kind: str | None = None
    weight: float | None = None


class Change(NamedTuple):
    """Record that an item went out of stock, or came back."""

    item: str
    available: bool
    time: float


class Described(NamedTuple):
    """Record what an item is like, by the names of the features that a model learnt from."""

    item: str
    features: Mapping[str, Any]
    title: str | None
    time: float


class Withdrawn(NamedTuple):
    """Take back what was said of an item by `Described`."""

    item: str
    time: float


class Impression(NamedTuple):
    """Record that a user was shown an item."""

    user: str
    item: str
    time: float


class DeletedUser(NamedTuple):
    """Delete all that the log has of a user; what model files have of it is not used from then on."""

    user: str
    time: float


class DeletedItem(NamedTuple):
    """Delete all that the log has of an item, and never recommend it until it is said to be available."""

    item: str
    time: float


LogEntry = Event | Change | Described | Withdrawn | Impression | DeletedUser | DeletedItem


def new_event(
    user: str, item: str, identifier: str | None = None, at: float | None = None, weight: float | None = None
) -> Event:
    """Make an event; without an id of the client's it gets one, and sending it again makes another event."""
    return Event(identifier or new_names(1)[0], user, item, time.time() if at is None else at, None, weight)


def new_names(count: int) -> list[str]:
    """Make ids of events, all by one call of the system."""
    text = os.urandom(_NAME_BYTES * count).hex()
    return [text[start : start + 2 * _NAME_BYTES] for start in range(0, len(text), 2 * _NAME_BYTES)]
