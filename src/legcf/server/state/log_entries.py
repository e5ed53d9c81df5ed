# SPDX-License-Identifier: Apache-2.0
"""Name what is written into the event log: each entry is a report, or takes reports back."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TAKEN_BACK = 0.0
"""The weight of an event after which earlier ones of the same user and item count no more."""

_NAME_BYTES = 16  # at random: no two events get the same


@dataclass(frozen=True)
class Event:
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


@dataclass(frozen=True)
class Change:
    """Record that an item went out of stock, or came back."""

    item: str
    available: bool
    time: float


@dataclass(frozen=True)
class Described:
    """Record what an item is like, by the names of the features that a model learnt from."""

    item: str
    features: Mapping[str, Any]
    title: str | None
    time: float


@dataclass(frozen=True)
class Withdrawn:
    """Take back what was said of an item by `Described`."""

    item: str
    time: float


@dataclass(frozen=True)
class Impression:
    """Record that a user was shown an item."""

    user: str
    item: str
    time: float


@dataclass(frozen=True)
class DeletedUser:
    """Delete all that the log has of a user; what model files have of it is not used from then on."""

    user: str
    time: float


@dataclass(frozen=True)
class DeletedItem:
    """Delete all that the log has of an item, and never recommend it until it is said to be available."""

    item: str
    time: float


LogEntry = Event | Change | Described | Withdrawn | Impression | DeletedUser | DeletedItem


def new_event(
    user: str,
    item: str,
    identifier: str | None = None,
    at: float | None = None,
    kind: str | None = None,
    weight: float | None = None,
) -> Event:
    """Make an event; without an id of the client's it gets one, and sending it again makes another event."""
    return Event(identifier or new_names(1)[0], user, item, time.time() if at is None else at, kind, weight)


def new_names(count: int) -> list[str]:
    """Make ids of events, all by one call of the system."""
    text = os.urandom(_NAME_BYTES * count).hex()
    return [text[start : start + 2 * _NAME_BYTES] for start in range(0, len(text), 2 * _NAME_BYTES)]
