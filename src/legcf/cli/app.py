# SPDX-License-Identifier: Apache-2.0
"""Run the `legcf` command: one file a command, each registered with one word here."""

import errno
import gc
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from legcf import __version__
from legcf.cli.workers import left_for_starter
from legcf.core.errors import UserError, training_packages_for
from legcf.core.plugins import Later, Registry


def command_of(name: str) -> Later[Any]:
    """Return the command in a module of `cli/commands/`: a function of its name, or an `app` of further commands."""

    def imported() -> Any:
        module = import_module(f"legcf.cli.commands.{name}")
        return module.app if hasattr(module, "app") else getattr(module, name)

    return Later(imported)


_NAMES = (
    "data", "train", "update", "evaluate", "recommend", "info", "methods", "compress", "export", "serve", "compare",
    "search",
)  # fmt: skip
COMMANDS: Registry[Any] = Registry(
    "command", "legcf.commands", callable, {name: command_of(name) for name in _NAMES}, ("reproduce", "report")
)

_ALLOCATIONS = 20_000  # between two looks for circles: with 700, imports take up to 0.1 s of 0.9 longer
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ENOTDIR)  # whatever it is that was named
_LOST = (
    "Another rank has not answered in time (LEGCF_RANK_TIMEOUT), or has ended: --resume continues from the last"
    " checkpoint."
)


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Return the app with the command that is asked for, or with all if it is none (help, a slip of the finger).

    A command does not wait for the imports of the others.
    """
    app = typer.Typer(
        name="legcf",
        help="Train, shrink and serve graph recommenders whose embeddings fit in a megabyte.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_before_any_command)  # so that a single command still goes by its name
    asked = arguments[0] if arguments else "--help"
    COMMANDS.check_installed(asked)
    is_option = asked.startswith("-")
    for name in () if asked == "--version" else (asked,) if not is_option and asked in COMMANDS else COMMANDS:
        command = COMMANDS[name]
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def main() -> None:
    """Entry point: a UserError becomes one sentence on stderr and exit code 2, Ctrl-C exit code 130."""
    arguments = sys.argv[1:]
    gc.set_threshold(_ALLOCATIONS)
    warnings.formatwarning = lambda message, *_, **__: f"legcf: {message}\n"  # one line, without a line of code
    try:
        with training_packages_for(f"`legcf {' '.join(arguments[:1])}`"):
            app_for(arguments)(standalone_mode=True)
    except UserError as error:
        if left_for_starter(error):
            sys.exit()
        print(f"legcf: {error.typed or error}", file=sys.stderr)
        sys.exit(2)
    except (MemoryError, RuntimeError, OSError, ImportError) as error:
        is_lost = isinstance(error, RuntimeError) and "gloo" in str(error)  # what ranks speak to each other by
        sentence = _LOST if is_lost else _shortage(error)
        if sentence is None:
            raise
        print(f"legcf: {sentence}", file=sys.stderr, flush=True)
        if is_lost:
            os._exit(1)  # torch would wait for the other at a usual end; a launcher starts all ranks again
        sys.exit(2)
    except KeyboardInterrupt:
        print("legcf: stopped.", file=sys.stderr)
        sys.exit(130)


def _shortage(error: Exception) -> str | None:
    """Return a sentence for what this machine lacks, memory, disk or rights; None for other errors, which are ours."""
    go_on = "what was written is whole, and a run goes on with --resume."
    # of Python and numpy; of torch; of a library that is too large to be loaded
    lacks_memory = any(words in str(error) for words in ("can't allocate memory", "failed to map segment"))
    if isinstance(error, MemoryError) or lacks_memory:
        return (
            f"There is not enough memory ({str(error).splitlines()[0] if str(error) else 'no more to be had'}): {go_on}"
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM):
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{where}: {go_on}"
    if isinstance(error, OSError) and error.errno in _REFUSED and error.filename:
        return f"{error.filename} cannot be used: {error.strerror}. Name another file or folder, or change its rights."
    return None


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"legcf {__version__}")
        raise typer.Exit


def _before_any_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""
