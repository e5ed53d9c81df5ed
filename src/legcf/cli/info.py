"""`legcf info`: what a run is and how it went."""

from pathlib import Path
from typing import Annotated, Any

import typer

from legcf.cli.output import AsJson, print_json, print_pairs, print_table
from legcf.cli.train import summary
from legcf.errors import UserError
from legcf.files import read_json


def info(run: Annotated[Path, typer.Argument(help="A run directory.")], as_json: AsJson = False) -> None:
    """Settings, size, accuracy and the training curve of RUN."""
    if not (run / "config.json").exists() and not (run / "model.json").exists():
        raise UserError(f"{run} is not a run directory: it has no config.json. `legcf train DATA --out RUN` makes one.")
    described: dict[str, Any] = read_json(run / "model.json") if (run / "model.json").exists() else {}
    config = described.get("config") or read_json(run / "config.json")
    if as_json:
        print_json(
            {"finished": bool(described), "config": config, **{k: described.get(k) for k in ("metrics", "curve")}}
        )
        return
    for section in ("method", "backbone", "training"):
        print_pairs(section, {key: str(value) for key, value in config[section].items()})
    if not described:
        typer.echo("Not finished yet; `legcf train … --resume` continues it.")
        return
    curve = [
        [
            line["stage"],
            line["epoch"],
            line["loss"],
            line.get("validation", {}).get("recall@20"),
            line.get("validation", {}).get("ndcg@20"),
            line["seconds"],
        ]
        for line in described["curve"]
    ]
    print_table("Epochs", ["stage", "epoch", "loss", "val recall@20", "val ndcg@20", "seconds"], curve)
    print_pairs(f"{config['method']['name']} on {described['metrics']['dataset']}", summary(described["metrics"]))
