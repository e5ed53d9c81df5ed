# SPDX-License-Identifier: Apache-2.0
"""`legcf methods`: what can be trained, with citations, presets, stages and options."""

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer import Argument

from legcf.cli.output import AsJson, print_json, print_table
from legcf.core.errors import MissingExtra


def methods(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="A method or backbone to show with all its options.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods and backbones; with NAME, its presets and every option with its default."""
    from legcf.core.plugins import find_part
    from legcf.training.registry import BACKBONES, METHODS

    described = {
        "methods": {one: _if_installed(one, _method) for one in METHODS},
        "backbones": {one: _if_installed(one, lambda name: _described(BACKBONES[name])) for one in BACKBONES},
    }
    if name is not None:
        METHODS.check_installed(name)
        find_part("method or backbone", name, {**described["methods"], **described["backbones"]})
        described = {kind: {one: among[one] for one in among if one == name} for kind, among in described.items()}
    if as_json:
        print_json(described)
    elif name is not None:
        for one in (among[name] for among in described.values() if name in among):
            _print_one(name, one)
    else:
        for kind, among in described.items():
            rows = [
                [key, one["summary"], one["citation"], "\n".join(one.get("presets", {}))] for key, one in among.items()
            ]
            columns = [kind[:-1], "what it is", "citation", "presets"]
            shown = 4 if kind == "methods" else 3
            print_table(kind.capitalize(), columns[:shown], [row[:shown] for row in rows])
        typer.echo("legcf methods NAME shows stages, presets and options.")


def _if_installed(name: str, describe: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Return the description of a part, or what it lacks."""
    try:
        return describe(name)
    except MissingExtra as error:
        return {"summary": str(error), "citation": "", "options": {}}


def _method(name: str) -> dict[str, Any]:
    from legcf.training.registry import METHODS, resolve

    method = METHODS[name]
    presets = {}
    for preset, settings in method.layer.presets.items():
        config = resolve(name, preset=preset)
        stages = [stage.name for stage in method.recipe(config.method, config.training)]
        presets[preset] = {"stages": stages, **settings}
    return {**_described(method.layer), "presets": presets}


def _described(kind: Any) -> dict[str, Any]:
    defaults = kind.Config().model_dump(mode="json")
    options = {
        key: {"default": defaults[key], "description": field.description or ""}
        for key, field in kind.Config.model_fields.items()
        if key != "name"
    }
    return {"summary": kind.summary, "citation": kind.citation, "options": options}


def _print_one(name: str, described: dict[str, Any]) -> None:
    typer.echo(f"{name}: {described['summary']}\n{described['citation']}")
    options = [[key, str(option["default"]), option["description"]] for key, option in described["options"].items()]
    print_table("Options", ["option", "default", "what it does"], options)
    presets = []
    for preset, settings in described.get("presets", {}).items():
        stages = " → ".join(settings.pop("stages"))
        keys = [f"{section}.{key} = {value}" for section in settings for key, value in settings[section].items()]
        presets.append([preset, stages, "\n".join(keys)])
    if presets:
        print_table("Presets", ["preset", "stages", "settings"], presets)
