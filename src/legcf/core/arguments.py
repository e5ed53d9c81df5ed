# SPDX-License-Identifier: Apache-2.0
"""Check what people pass from Python: a wrong type gets a sentence, not a traceback from within."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from legcf.core.errors import UserError

_ARTICLES = {"user": "a user", "item": "an item"}


def as_count(value: Any, what: str, least: int = 1) -> int:
    """Return a whole number of at least `least`; `what` it counts begins the sentence of a refusal."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise UserError(f"{what} must be a whole number such as 10, not {value!r}.")
    if value < least:
        raise UserError(f"{what} is {value}, and must be at least {least}.")
    return int(value)


def check_shares(**shares: Any) -> None:
    """Refuse what is no number from 0 to 1."""
    for name, value in shares.items():
        if not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
            raise UserError(f"{name} = {value!r} is not possible: it is a number from 0 to 1.")


def as_list(values: Any, what: str) -> list[Any]:
    """Return several values as a list, whatever holds them."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UserError(f"{what} must be a list such as [10, 20], not {values!r}.")
    return list(values)


def as_ids(asked: Any, kind: str) -> list[int | str]:
    """Return one id or several as a list, each an integer or text."""
    one = isinstance(asked, str | bytes) or not isinstance(asked, Iterable)
    return [_as_id(value, kind) for value in ([asked] if one else asked)]


def _as_id(value: Any, kind: str) -> int | str:
    if isinstance(value, np.integer | np.str_):
        return value.item()
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    raise UserError(
        f"{value!r} is not the id of {_ARTICLES[kind]}: ids are whole numbers or text, as in the training data."
    )
