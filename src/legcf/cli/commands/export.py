# SPDX-License-Identifier: Apache-2.0
"""`legcf export`: from a run to one small file that serves without the graph."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legcf.cli.output import AsJson, print_json, print_pairs, print_table
from legcf.core.errors import UserError

if TYPE_CHECKING:
    from legcf.modelfile.attributes import Attributes
    from legcf.recommender import Recommender

_DTYPES = ("int8", "float16", "float32")
_FORMATS = ("coded", "full", "onnx")


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of `legcf train`.")],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The file to write, e.g. model.legcf.")],
    t: Annotated[
        int | None,
        typer.Option("-t", min=1, max=64, help="Meta-embeddings per row.  [default: the model's own, else 4]"),
    ] = None,
    c: Annotated[
        int | None, typer.Option("-c", min=1, help="Meta-embeddings in all.  [default: the model's own]")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="Numbers as int8 with scales, float16 or float32.  [default: int8; float32 for full]"),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="coded, full (the propagated table) or onnx.")] = "coded",
    users: Annotated[
        str | None,
        typer.Option(
            help="coded: users can be asked for by id, by a code of their vector; history: by what they have; none:"
            " every request brings the user's items.  [default: what the model's users are; none after train --bytes]"
        ),
    ] = None,
    history: Annotated[
        bool | None, typer.Option(help="Store what users have.  [default: yes, unless --users none]")
    ] = None,
    attributes: Annotated[
        str | None,
        typer.Option(
            help="Columns of --items that requests may filter by, such as category,price.  [default: all of them]"
        ),
    ] = None,
    items: Annotated[
        Path | None, typer.Option(help="A table with a row for each item: its id, and attributes to filter by.")
    ] = None,
    titles: Annotated[bool, typer.Option(help="Store the titles of items, if there are any.")] = True,
    seed: Annotated[int, typer.Option(help="Seed of the codebook's start and of the samples.")] = 0,
    evaluate: Annotated[
        bool, typer.Option(help="Measure accuracy before and after, if the data is still there.")
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write RUN as one MODEL file: codebook, codes, ids, titles. Prints size and accuracy before and after."""
    _choose("--format", form, _FORMATS)
    dtype = dtype if dtype is not None else "float32" if form == "full" else "int8"
    _choose("--dtype", dtype, _DTYPES)
    if attributes is not None and items is None:
        raise UserError("--attributes names columns of a table: give the table with --items.")
    if users is not None:
        _choose("--users", users, ("coded", "history", "none"))

    from legcf.core import jit
    from legcf.export.build import accuracy, build, served_ranking
    from legcf.recommender import Recommender

    quiet = quiet or as_json
    if quiet:
        jit.silence()
    trained = Recommender.load(run)
    users = users if users is not None else _usual_users(trained, form)
    pooled = trained.ranking.pooling is not None
    if pooled and users == "coded":
        raise UserError("Users of this model are their histories and have no vectors: use --users history or none.")
    if form == "onnx" and users != "coded" and not pooled:
        raise UserError("An ONNX scorer answers for known users: export it with --users coded.")
    keep_history = history if history is not None else users != "none"
    try:
        if "final" in trained.metrics:
            raise UserError("the model was trained on every pair, so none is left to measure it by")
        dataset = trained.dataset()
    except UserError as error:
        dataset = None
        if not quiet:
            typer.echo(f"legcf: accuracy is not measured: {error}", err=True)
    known = None if items is None else _read_attributes(items, attributes, trained)
    served = build(
        trained.trained,
        t=t,
        c=c,
        dtype=dtype,
        form="full" if form == "full" else "coded",
        keep_users=users == "coded",
        keep_history=keep_history,
        keep_titles=titles,
        attributes=known,
        validation=None if dataset is None else dataset.validation,
        seed=seed,
        quiet=quiet,
    )
    measured: dict[str, Any] = {}
    if evaluate and dataset is not None:
        as_served = served_ranking(served, dataset.train, quiet)
        for name, part in (("validation", dataset.validation), ("test", dataset.test)):
            if not part.num_pairs:
                continue
            before = trained.metrics.get(name) or trained.evaluate(name)
            after = accuracy(as_served, part)
            keys = ("recall@20", "ndcg@20")
            measured[name] = {key: {"before": before[key], "after": after[key]} for key in keys}
        served.card["serving"]["accuracy"] = measured
        if not measured and not quiet:
            typer.echo(
                "legcf: accuracy is not measured: the data of this run has no test or validation pairs", err=True
            )
    if form == "onnx":
        from legcf.export.onnx_file import write_onnx

        sizes = {"onnx": write_onnx(served, model)}
    else:
        sizes = served.save(model)
    report = {
        "file": str(model),
        "bytes": model.stat().st_size,
        "parts": sizes,
        "full_table_bytes": served.card["full_table_bytes"],
        "settings": {**served.card["serving"], "dtype": dtype, "format": form, "users": users, "seed": seed},
        "fold_in": vars(served.fold_in),
        "accuracy": measured,
    }
    report["settings"].pop("accuracy", None)
    if as_json:
        print_json(report)
    else:
        _show(report)


def _usual_users(trained: "Recommender", form: str) -> str:
    """What the model's users are; a model that was made to keep to a size gives a file of that size, without them."""
    if trained.ranking.pooling is None:
        return "coded"
    return "none" if isinstance(trained.config.ranking.bytes, int) and form != "full" else "history"


def _read_attributes(path: Path, names: str | None, trained: "Recommender") -> "Attributes":
    from legcf.data.reading.item_table import read_attributes
    from legcf.export.build import item_attributes

    wanted = None if names is None else [name.strip() for name in names.split(",") if name.strip()]
    item_col = trained.config.data.get("options", {}).get("item_col")
    return item_attributes(read_attributes(path, trained.items, wanted, item_col), len(trained.items))


def _show(report: dict[str, Any]) -> None:
    share = report["full_table_bytes"] / max(report["bytes"], 1)
    sizes = {f"{name} (bytes)": size for name, size in report["parts"].items() if size}
    total = {"file (bytes)": report["bytes"], "full table in float32 (bytes)": report["full_table_bytes"]}
    print_pairs(report["file"], {**sizes, **total, "smaller by": f"{share:.1f}×"})
    if report["accuracy"]:
        rows = [
            (f"{part} {metric}", pair["before"], pair["after"], f"{pair['after'] / max(pair['before'], 1e-12):.1%}")
            for part, metrics in report["accuracy"].items()
            for metric, pair in metrics.items()
        ]
        print_table("Accuracy", ("", "with the graph", "this file", "kept"), rows)


def _choose(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"{option} {value} is not known: choose {' or '.join(choices)}.")
