"""`legcf data …`: look at, fetch, prepare, generate and export datasets."""

import typer

app = typer.Typer(help="Look at, fetch, prepare, generate and export datasets.", no_args_is_help=True)


@app.callback()
def data() -> None:
    pass
