# SPDX-License-Identifier: Apache-2.0
"""`legcf search`: the best settings of a method for some data, chosen on validation."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from legcf.cli.data_options import with_data_options
from legcf.cli.output import AsJson, print_json, print_pairs
from legcf.core.config import current_key, key_and_value, parse_assignments, value_from_text, with_current_keys
from legcf.core.errors import UserError
from legcf.data.options import DataOptions


@with_data_options
def search(
    data_options: DataOptions,
    data: Annotated[str, Argument(metavar="DATA", help="A folder, a file, or a known name.")],
    method: Annotated[str, Option(help="The method whose settings are searched.")] = "legcf",
    trials: Annotated[int, Option(help="How many settings to try in all, pruned ones included.")] = 20,
    out: Annotated[Path, Option("--out", "-o", help="Folder of the search; one that exists is continued.")] = Path(
        "search"
    ),
    backbone: Annotated[str | None, Option(help="What propagates the embeddings.")] = None,
    preset: Annotated[str, Option(help="Settings that are not searched.")] = "default",
    seed: Annotated[int, Option(help="Seed of every trial and of the choice of settings.")] = 0,
    over: Annotated[
        list[str] | None,
        Option(help="Search this key instead of the method's own space, e.g. method.t=1,2,4. May be repeated."),
    ] = None,
    settings: Annotated[list[str] | None, Option("--set", help="A configuration key for all trials.")] = None,
    workers: Annotated[int, Option(help="Processes of this machine side by side.")] = 1,
    scheduler: Annotated[
        str | None, Option(help="Address of a Dask scheduler whose workers train; they must see the data.")
    ] = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="No line per trial.")] = False,
    as_json: AsJson = False,
) -> None:
    """Try settings of a method on DATA and write the best as a file for `legcf train --config`."""
    from legcf.data.source import load_data
    from legcf.experiments.search import SearchRequest, prepare, side_by_side
    from legcf.experiments.search import search as look

    if workers < 1:
        raise UserError(f"--workers {workers} cannot do anything; give at least 1.")
    overrides = with_current_keys(parse_assignments(settings or []), method)
    space = {current_key(key, method): values for key, values in _values(over or []).items()}
    request = SearchRequest(method, backbone, preset, seed, overrides, space, data_options.reference(data))
    request.config({})
    dataset = load_data(data, data_options)
    prepare(request, dataset, out, trials)
    if workers > 1 and scheduler is not None:
        raise UserError("--workers are processes of this machine; with --scheduler leave them out.")
    if workers > 1:
        one = [word for word in sys.argv[1:] if word != "--json"]
        side_by_side([*one, "--workers", "1"], workers)
    result = look(request, dataset, out, trials, (lambda _: None) if quiet or as_json else _tell, scheduler)
    if as_json:
        print_json(result)
        return
    if result["alike"]:
        score = " ".join(f"{key} {value:.4f}" for key, value in result["best"].items() if key.startswith("validation"))
        typer.echo(
            f"All {result['trials']} finished trials scored the same ({score}): what was searched changes nothing here,"
            " and the settings stay as they were. Name other keys with --over."
        )
    else:
        print_pairs(f"Best of {result['trials']} finished trials", result["best"])
    next_command = shlex.join(["legcf", "train", data, "--config", result["config"], "--out", "RUN"])
    typer.echo(f"Settings: {result['config']}. Next: {next_command}")


def _tell(trial: Any) -> None:
    value = "" if trial.value is None else f"  {trial.value:.4f}"
    drawn = "".join(f"  {key}={setting}" for key, setting in trial.params.items())
    refused = f"  {trial.user_attrs['error']}" if "error" in trial.user_attrs else ""
    typer.echo(f"trial {trial.number:3d} {trial.state.name.lower():>8}{value}{drawn}{refused}", err=True)


def _values(texts: list[str]) -> dict[str, tuple[Any, ...]]:
    values_of = {}
    for text in texts:
        key, values = key_and_value(text, "--over", "method.t=1,2,4")
        if not values or "." not in key:
            raise UserError(f"`--over {text}` names no section or no values, as --over method.t=1,2,4 does.")
        values_of[key] = tuple(dict.fromkeys(map(_single_value, values.split(","))))
    return values_of


def _single_value(text: str) -> Any:
    value = value_from_text(text)
    if isinstance(value, list | dict):
        raise UserError(f"`--over` takes numbers, words, true, false and null between commas, not {text}.")
    return value
