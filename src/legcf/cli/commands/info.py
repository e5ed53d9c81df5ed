# SPDX-License-Identifier: Apache-2.0
"""`legcf info`: show what a run is and how it went, or what a model file holds."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from legcf.cli.output import AsJson, print_json, print_pairs, print_table
from legcf.core.config import SECTIONS, migrated
from legcf.core.errors import UserError
from legcf.core.files import read_json


def info(
    run: Annotated[Path, Argument(metavar="RUN", help="A run folder, or a model file.")],
    plot: Annotated[
        Path | None, Option(help="Also draw the sizes that popular and rare entities have got, into this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show settings, size, accuracy and the training curve of RUN, or what a model file holds."""
    from legcf.scoring.run_files import method_title, read_description, summary

    if run.is_file():
        _show_file(run, plot, as_json)
        return
    if not (run / "config.json").exists() and not (run / "model.json").exists():
        raise UserError(f"{run} is not a run folder: it has no config.json. `legcf train DATA --out RUN` makes one.")
    described: dict[str, Any] = read_description(run) if (run / "model.json").exists() else {}
    config = described.get("config") if described else read_json(run / "config.json")
    config = migrated(config) if isinstance(config, dict) else config
    if not isinstance(config, dict) or not all(isinstance(config.get(section), dict) for section in SECTIONS):
        raise UserError(f"{run} was not written by legcf; give a folder that `legcf train` made.")
    if plot is not None:
        _plot(run, described, plot)
    if as_json:
        results = {key: described.get(key) for key in ("metrics", "curve")}
        print_json({"finished": bool(described), "config": config, **results})
        return
    for section in SECTIONS:
        print_pairs(section, {key: str(value) for key, value in config[section].items()})
    if not described:
        typer.echo("Not finished yet; `legcf train … --resume` continues it.")
        return
    curve = []
    for line in described["curve"]:
        scores = [line.get("validation", {}).get(name) for name in ("recall@20", "ndcg@20")]
        curve.append([line["stage"], line["epoch"], line["loss"], *scores, line["seconds"]])
    print_table("Epochs", ["stage", "epoch", "loss", "val recall@20", "val ndcg@20", "seconds"], curve)
    title = method_title(_asked_method(run) or config["method"]["name"], config["method"]["name"])
    print_pairs(f"{title} on {described['metrics']['dataset']}", summary(described["metrics"]))


def _asked_method(run: Path) -> str | None:
    """Return the method that the run was started with; None where its settings are not there."""
    asked = read_json(run / "config.json") if (run / "config.json").exists() else None
    method = asked.get("method") if isinstance(asked, dict) else None
    name = method.get("name") if isinstance(method, dict) else None
    return name if isinstance(name, str) else None


def _show_file(path: Path, plot: Path | None, as_json: bool) -> None:
    from legcf.modelfile.served_model import ServedModel
    from legcf.scoring.run_files import SHOWN_METRICS

    if plot is not None:
        raise UserError(f"{path} is a model file, and sizes of entities are drawn from a run: give its folder.")
    model = ServedModel.load(path)
    size, metrics = path.stat().st_size, model.card.get("metrics") or {}
    users = None if model.users is None else len(model.users)
    if as_json:
        content = {"file": str(path), "bytes": size, "items": len(model.items), "users": users, "dtype": model.dtype}
        print_json({**content, "card": model.card})
        return
    full_table = model.card.get("full_table_bytes")
    facts = {
        "items": len(model.items),
        "users": "none: a request brings its items" if users is None else users,
        **({} if model.history is None else {"pairs of users and items": model.history.num_pairs}),
        "bytes": size,
        **({"times smaller than the full table": full_table / size} if full_table else {}),
        "width of vectors": model.item_rows.width,
        **model.item_rows.facts,
        "numbers": model.dtype,
        **({} if model.lists is None else {"list entries": model.lists.num_entries}),
        **{f"test {name}": metrics["test"][name] for name in SHOWN_METRICS if name in (metrics.get("test") or {})},
        **{name: model.card[name] for name in ("dataset", "method", "preset") if model.card.get(name) is not None},
    }
    print_pairs(path.name, facts)


def _plot(run: Path, described: dict[str, Any], path: Path) -> None:
    from legcf.embeddings.sizes import plot_sizes

    sizes = described.get("metrics", {}).get("sizes")
    if sizes is None:
        why = "all its entities have the same size" if described else "it is not finished"
        raise UserError(f"{run} has no sizes to draw: {why}.")
    plot_sizes({described["config"]["method"]["name"]: sizes}, path)
