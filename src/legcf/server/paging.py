# SPDX-License-Identifier: Apache-2.0
"""Go on with a list where a page of it ended: a cursor says as of when, so that news do not shift the next page."""

import base64
import binascii
import json
from typing import NamedTuple

from legcf.core.errors import UserError
from legcf.server.encoding import encode
from legcf.server.schemas import MAX_DIVERSE, MAX_OFFSET, Ask

_LARGEST = 2**53  # of a number in JSON that every reader holds exactly


class Cursor(NamedTuple):
    """Hold where a page begins, in the list of which model, and as of which positions of the event log.

    `events` and `impressions` are the user's last, `changes` is the last change of availability; `minute` is the time
    as of which impressions are counted, in minutes since 1970.
    """

    model: str
    offset: int
    events: int = 0
    changes: int = 0
    impressions: int = 0
    minute: int = 0

    def encode(self) -> str:
        return base64.urlsafe_b64encode(encode(tuple(self))).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str) -> "Cursor":
        try:
            model, *numbers = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            is_cursor = type(model) is str and len(numbers) == 5
            if not (is_cursor and all(type(one) is int and 0 <= one < _LARGEST for one in numbers)):
                raise ValueError
            return cls(model, *numbers)
        except (ValueError, TypeError, RecursionError, binascii.Error):
            raise UserError("The cursor is none of this server's: send `next` of an answer as it came.") from None


def check_page(ask: Ask, offset: int) -> None:
    """Refuse a page so far behind that finding it would keep others waiting."""
    if not _is_in_reach(ask, offset):
        most = f"{MAX_DIVERSE:,} items in all" if ask.diversity else f"an offset of {MAX_OFFSET:,}"
        raise UserError(f"A list is given up to {most}: ask for fewer, or with a narrower filter.")


def following(ask: Ask, page: Cursor, count: int) -> str | None:
    """Return the cursor of the page behind this one, None if this one is not full or that one is out of reach."""
    offset = page.offset + ask.k
    return page._replace(offset=offset).encode() if count == ask.k and _is_in_reach(ask, offset) else None


def start_of(ask: Ask) -> Cursor:
    """Return where a page begins; the first one if the cursor is none, which is refused later."""
    if ask.cursor is None:
        return Cursor("", ask.offset)
    try:
        return Cursor.decode(ask.cursor)
    except UserError:
        return Cursor("", 0)


def _is_in_reach(ask: Ask, offset: int) -> bool:
    return offset <= MAX_OFFSET and (not ask.diversity or not offset or offset + ask.k <= MAX_DIVERSE)
