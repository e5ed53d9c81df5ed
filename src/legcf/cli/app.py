"""The `legcf` command: one file a command, each registered with one line here."""

import sys

import typer

from legcf.cli import (
    compare,
    compress,
    data,
    evaluate,
    export,
    info,
    methods,
    recommend,
    report,
    reproduce,
    search,
    serve,
    train,
)
from legcf.errors import UserError

app = typer.Typer(
    name="legcf",
    help="Train, shrink and serve graph recommenders whose embeddings fit in a megabyte.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.command()(train.train)
app.command()(evaluate.evaluate)
app.command()(recommend.recommend)
app.command()(info.info)
app.command()(methods.methods)
app.command()(compress.compress)
app.command()(export.export)
app.command()(serve.serve)
app.command()(reproduce.reproduce)
app.command()(report.report)
app.command()(compare.compare)
app.command()(search.search)


def main() -> None:
    """Entry point: a UserError becomes one sentence on stderr and exit code 2, Ctrl-C exit code 130."""
    try:
        app(standalone_mode=True)
    except UserError as error:
        print(f"legcf: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("legcf: stopped.", file=sys.stderr)
        sys.exit(130)
