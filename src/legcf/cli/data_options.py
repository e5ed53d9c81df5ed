# SPDX-License-Identifier: Apache-2.0
"""Put the fields of DataOptions on the command line of every command that reads data, and read counts as typed."""

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer

from legcf.core.config import validated
from legcf.core.errors import UserError
from legcf.data.options import DataOptions


def with_data_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of DataOptions; it receives them as the argument `data_options`.

    Name, type and help come from the record itself, so that the two can never differ.
    """
    options = []
    for name, field in DataOptions.model_fields.items():
        is_switch = field.annotation in (bool, bool | None)
        names = f"{option_name(name)}/{option_name('no_' + name)}" if is_switch else option_name(name)
        option = typer.Option(names, help=field.description, rich_help_panel="Data")
        kind: Any = field.annotation
        annotation = Annotated[kind | None, option]
        options.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        values = {option.name: arguments.pop(option.name) for option in options}
        typed = {name: value for name, value in values.items() if value is not None}
        command(data_options=validated(DataOptions, typed, "data", option_name), **arguments)

    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "data_options"
    ]
    parameters = [*own, *options]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped


def option_name(field: str) -> str:
    """Return what a field of DataOptions is called on the command line."""
    return f"--{field.replace('_', '-')}"


def refuse_without_data(data: str | None, data_options: DataOptions, what_is: str) -> None:
    """Refuse options that say how data are read where there is no --data; `what_is` names them, with is or are."""
    if data is None and data_options.model_fields_set:
        names = ", ".join(map(option_name, sorted(data_options.model_fields_set)))
        raise UserError(f"{names} says how {what_is} read, but there is no --data.")


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
