# SPDX-License-Identifier: Apache-2.0
"""Raise errors that are sentences for the person at the keyboard: what is wrong, where, and what to do."""

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_OPTIONS = re.compile(r"`legcf [^`]*`|`--[^`]*`|--(?P<name>[a-z][a-z-]*)")
_TRAINING_PACKAGES = frozenset({"numba", "polars", "psutil", "pymetis", "safetensors", "scipy", "torch"})


class UserError(Exception):
    """Report something the user can mend. The command line prints it as one sentence and exits with code 2.

    Example:
        ```python
        try:
            Recommender().fit("ratings.csv")
        except UserError as error:
            print(error)  # what is wrong, where, and what to do
        ```
    """

    typed: str | None = None
    """The sentence in the words of the command line, where `str(error)` is in Python's."""


class MissingExtra(UserError):
    """Report a feature whose optional packages are not installed."""

    def __init__(self, feature: str, extra: str, package: str = "legcf") -> None:
        super().__init__(f"{feature} needs optional packages: run `pip install '{package}[{extra}]'` and try again.")


def python_arguments(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let errors of a function that people call from Python name its arguments instead of command-line options."""

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            if error.typed is None:
                error.typed = str(error)
                error.args = (in_python(error.typed),)
            raise

    return called


def in_python(sentence: str) -> str:
    """Return a sentence with options as Python has them: `--cold keep` in backticks as `cold='keep'`."""
    return _OPTIONS.sub(_arguments, sentence)


def _arguments(options: re.Match[str]) -> str:
    if options[0].startswith("`legcf"):  # a command to be typed
        return options[0]
    if not options[0].startswith("`"):
        return options["name"].replace("-", "_")
    return f"`{', '.join(map(_argument, options[0].strip('`').removeprefix('--').split(' --')))}`"


def _argument(option: str) -> str:
    name, _, value = option.partition(" ")
    name = name.replace("-", "_")
    if name in ("header", "no_header"):
        return f"header={name == 'header'}"
    is_literal = value.startswith("'") or (value.isdigit() and not name.endswith("_col"))
    return f"{name}={value if is_literal else repr(value)}" if value else name


@contextmanager
def training_packages_for(feature: str) -> Iterator[None]:
    """Turn the lack of a package that only training needs into a `MissingExtra` of `feature`."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _TRAINING_PACKAGES:
            raise MissingExtra(feature, "train") from error
        raise
