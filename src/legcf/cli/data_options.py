"""The options of DataOptions on the command line of every command that reads data."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from legcf.data.options import DataOptions, make_options


def with_data_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of DataOptions; it receives them as the argument `data_options`.

    Name, type and help come from the record itself, so that the two can never differ.
    """
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                _optional(field.annotation),
                typer.Option(f"--{name.replace('_', '-')}", help=field.description, rich_help_panel="Data"),
            ],
        )
        for name, field in DataOptions.model_fields.items()
    ]

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        given = {option.name: arguments.pop(option.name) for option in options}
        chosen = make_options({name: value for name, value in given.items() if value is not None})
        command(data_options=chosen, **arguments)

    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "data_options"
    ]
    parameters = [*own, *options]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped


def _optional(annotation: Any) -> Any:
    return annotation | None
