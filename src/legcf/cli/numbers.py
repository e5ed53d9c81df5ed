# SPDX-License-Identifier: Apache-2.0
"""Read numbers as people type them."""

from contextlib import suppress
from typing import Any

import typer


def whole_number(text: str) -> int:
    """Read `100000`, `100_000` or `1e5`."""
    try:
        return int(text)
    except ValueError:
        with suppress(ValueError):
            if (value := float(text)).is_integer():
                return int(value)
    raise typer.BadParameter(f"{text!r} is not a whole number, such as 100000 or 1e5.")


def large_number(help_text: str) -> Any:
    """Return an option for a count that may have many zeros."""
    return typer.Option(parser=whole_number, metavar="INTEGER", help=help_text)
