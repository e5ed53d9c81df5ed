# SPDX-License-Identifier: Apache-2.0
"""The pages of the reference, made from the code: what a command takes, a key means and a server answers."""

import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import legcf


def pages() -> dict[str, str]:
    """Every page of the reference by its path in the site."""
    made: dict[str, Callable[[], Iterable[str]]] = {
        "cli": _command_line,
        "python": _python,
        "configuration": _configuration,
        "http": _http,
        "file-format": _file_format,
    }
    return {f"reference/{name}.md": "\n".join(make()) + "\n" for name, make in made.items()}


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in row)} |"
    yield ""


def _command_line() -> Iterator[str]:
    """Every command with its options, from the app itself."""
    import typer.main

    from legcf.cli.app import app_for
    from legcf.data.options import DataOptions

    root = typer.main.get_command(app_for(()))
    yield "# Command line\n"
    yield f"{root.help} Every command explains itself with `--help`. A mistake is one sentence and exit code 2.\n"
    yield from _command("legcf", root, 1)
    yield "## Options of data { #options-of-data }\n"
    yield "Every command that reads data takes these ([Your own data](../data.md) says more).\n"
    of_data = [one for one in root.commands["train"].params if one.name in DataOptions.model_fields]
    yield from _table(("option", "takes", "default", "meaning"), map(_option, of_data))


def _command(path: str, command: Any, level: int) -> Iterator[str]:
    from legcf.data.options import DataOptions

    if level > 1:
        yield f"{'#' * level} {path}\n"
        yield f"{_sentence(command.help or '')}\n"
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    if level > 1 and not hasattr(command, "commands"):
        taken = [_metavar(one) for one in arguments]
        needed = [f"{one.opts[0]} {one.name.upper()}" for one in options if one.required]
        yield f"```text\n{' '.join([path, *taken, *needed, *(['[OPTIONS]'] if options else [])])}\n```\n"
    if arguments:
        yield from _table(
            ("argument", "meaning"),
            ((f"`{_metavar(one)}`", _sentence(one.help or "")) for one in arguments),
        )
    own = [one for one in options if one.name not in DataOptions.model_fields]
    if own:
        yield from _table(("option", "takes", "default", "meaning"), map(_option, own))
    if len(own) < len(options):
        yield "It also takes the [options of data](#options-of-data).\n"
    for name, inside in getattr(command, "commands", {}).items():
        yield from _command(f"{path} {name}", inside, level + 1)


def _metavar(argument: Any) -> str:
    name = argument.name.upper()
    more = "..." if argument.nargs == -1 else ""
    return f"{name}{more}" if argument.required else f"[{name}]{more}"


def _option(option: Any) -> tuple[str, str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    takes = (
        ""
        if option.is_flag
        else f"`{_type(option.type_descriptor.annotation)}`{', repeatable' if option.multiple else ''}"
    )
    unset = option.default is None or callable(option.default) or option.default in ((), [])
    default = "required" if option.required else "" if unset or option.default is False else f"`{option.default}`"
    return names, takes, default, _sentence(option.help or "")


def _sentence(text: str) -> str:
    return " ".join(text.split())


def _python() -> Iterator[str]:
    """The public names; mkdocstrings fills in what their docstrings say."""
    yield "# Python\n"
    yield "What `import legcf` gives, and all that later versions promise to keep. Names are imported on first use:"
    yield "`legcf.Scorer` needs numpy alone.\n"
    for home in legcf._HOMES.values():
        yield f"::: {home.replace(':', '.')}\n"
    yield f"## `__version__`\n\nThe version as text, `{legcf.__version__}` here.\n"


def _configuration() -> Iterator[str]:
    """Every key of a run's configuration, from the models that check it."""
    from legcf.data.options import DataOptions
    from legcf.training.registry import BACKBONES, COMMON_SECTIONS, METHODS

    yield "# Configuration\n"
    yield "The same names in `config.json`, after `--set` and in Python: `training.epochs` is `--set training.epochs=5`"
    yield 'and `Recommender(training={"epochs": 5})`. A key that is not here is refused. Presets of a method set some'
    yield "of them: `legcf methods NAME` shows which.\n"
    for section, model in COMMON_SECTIONS.items():
        yield f"## {section}\n\n{_sentence(model.__doc__ or '')}\n"
        yield from _keys(section, model)
    yield "## data\n\nHow data is read and split: options of the commands, and keys of `data.options` in a file.\n"
    yield from _keys("", DataOptions)
    yield "## method\n\n`--method NAME`; the keys of each stand in the section `method`.\n"
    for name, method in METHODS.items():
        yield f"### {name}\n\n{_sentence(method.layer.summary)}\n"
        yield from _keys("method", method.layer.Config)
    yield "## backbone\n\n`--backbone NAME`; the keys of each stand in the section `backbone`.\n"
    for name, backbone in BACKBONES.items():
        yield f"### {name} {{ #backbone-{name} }}\n\n{_sentence(backbone.__doc__ or '')}\n"
        yield from _keys("backbone", backbone.Config)


def _keys(section: str, model: type[BaseModel]) -> Iterator[str]:
    rows = [
        (
            f"`{section}.{key}`" if section else f"`{key}`",
            f"`{_type(field.annotation)}`",
            _default(field),
            " ".join(filter(None, (_sentence(field.description or ""), _limits(field)))),
        )
        for key, field in model.model_fields.items()
        if key != "name"
    ]
    if rows:
        yield from _table(("key", "type", "default", "meaning"), rows)
    else:
        yield "It has no keys.\n"


def _type(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return " | ".join(map(repr, typing.get_args(annotation)))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " | ".join(repr(one.value) for one in annotation)
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "").replace("NoneType", "None")


def _default(field: Any) -> str:
    if field.default is PydanticUndefined:
        return "" if field.default_factory is None else f"`{field.default_factory()}`"
    value = field.default
    return "" if value is None else f"`{value.model_dump() if isinstance(value, BaseModel) else value}`"


def _limits(field: Any) -> str:
    signs = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
    told = [
        f"{sign} {getattr(one, name):g}" for one in field.metadata for name, sign in signs.items() if hasattr(one, name)
    ]
    return f"({', '.join(told)})" if told else ""


def _http() -> Iterator[str]:
    """The operations and schemas of the OpenAPI document."""
    from legcf.server.routes.openapi import document
    from legcf.server.routes.query import QueryApi

    nothing: Any = None  # the document needs none of what answers
    described = document(QueryApi(nothing).operations(), key=True)
    yield "# HTTP\n"
    yield f"{described['info']['description']} A running server has the same as a page to try (`/docs`) and as a"
    yield "document for machines (`/openapi.json`, OpenAPI 3.1). Operations marked *open* need no key.\n"
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield from _operation(path, method, operation)
    yield "## Schemas\n"
    for name, schema in sorted(described["components"]["schemas"].items()):
        yield f"### {name} {{ #{name.lower()} }}\n"
        yield f"{_sentence(schema.get('description', ''))}\n"
        needed = schema.get("required", ())
        rows = (
            (f"`{key}`", _schema(entry), "yes" if key in needed else "", _sentence(entry.get("description", "")))
            for key, entry in schema.get("properties", {}).items()
        )
        yield from _table(("field", "type", "always", "meaning"), rows)


def _operation(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"## {method.upper()} {path}\n"
    yield f"{operation['summary']}{'' if operation.get('security') else ' *Open.*'}\n"
    if operation.get("parameters"):
        rows = (
            (
                f"`{one['name']}`",
                one["in"],
                _content(one["content"]) + ", as JSON" if "content" in one else _schema(one["schema"]),
                "required" if one["required"] else f"`{one.get('schema', {}).get('default')}`",
                _sentence(one.get("description", "")),
            )
            for one in operation["parameters"]
        )
        yield from _table(("parameter", "in", "type", "default", "meaning"), rows)
    if "requestBody" in operation:
        yield f"Body: {_content(operation['requestBody']['content'])}.\n"
    answers = (
        (f"`{code}`", _content(one["content"]), one["description"]) for code, one in operation["responses"].items()
    )
    yield from _table(("status", "answer", "meaning"), answers)


def _content(content: dict[str, Any]) -> str:
    return " or ".join(_schema(one["schema"]) for one in content.values())


def _schema(schema: dict[str, Any]) -> str:
    """A type in a few words, linked where it has a name."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_schema(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{one!r}`" for one in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_schema(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def _file_format() -> Iterator[str]:
    """The layout as the code that reads it says, and the arrays of a file that is written for this page."""
    from legcf.modelfile import container, served_model
    from legcf.scoring import settle

    yield "# Model file\n"
    yield "One `.legcf` file holds all that recommending needs. It is a safetensors file, so any reader of those opens"
    yield "it; `legcf.Scorer.load` checks it on the way in.\n"
    for title, module in (("The container", container), ("What is in it", served_model), ("What a score is", settle)):
        yield f"## {title}\n\n{(module.__doc__ or '').strip()}\n"
    yield "## The arrays of a file\n"
    yield "A small file, with lists, titles and histories, written and read back for this page:\n"
    header, arrays = _example()
    yield from _table(
        ("array", "dtype", "shape", "bytes"),
        ((f"`{name}`", str(one.dtype), " × ".join(map(str, one.shape)), f"{one.nbytes:,}") for name, one in arrays),
    )
    yield f"`config` in its header:\n\n```json\n{header}\n```\n"


def _example() -> tuple[str, list[tuple[str, Any]]]:
    import json
    import tempfile
    from pathlib import Path

    import numpy as np

    from legcf.data.ids import IdMap
    from legcf.data.interactions import Interactions
    from legcf.modelfile.container import read_container
    from legcf.modelfile.histories import PackedHistories
    from legcf.modelfile.served_model import ServedModel
    from legcf.ranking.item_lists.lists import ItemLists
    from legcf.ranking.tables.embedding_table import CodebookTable
    from legcf.ranking.tables.pooling import Pooling

    rng = np.random.default_rng(0)
    users, items, c, t, width = 40, 30, 8, 2, 4
    taken = Interactions.from_pairs(*np.nonzero(rng.random((users, items)) < 0.2), users, items)
    spoken = Interactions.from_pairs(*np.nonzero(rng.random((items, items)) < 0.1), items, items)
    codebook, weights = (rng.standard_normal(shape).astype(np.float32) for shape in ((c, width), (items, t)))
    model = ServedModel(
        items=IdMap.of([f"item-{item}" for item in range(items)], "item"),
        item_rows=CodebookTable(rng.integers(0, c, (items, t)).astype(np.uint16), weights, codebook),
        popularity=taken.item_degrees,
        users=IdMap.of(np.arange(users), "user"),
        titles=[f"Title {item}" for item in range(items)],
        history=PackedHistories.of(taken),
        pooling=Pooling(0.5, 0.5, taken.item_degrees),
        lists=ItemLists(spoken, rng.random(spoken.num_pairs).astype(np.float32)),
        dtype="int8",
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.legcf"
        model.save(path)
        arrays, metadata = read_container(path)
    return json.dumps(json.loads(metadata["config"]), indent=2), sorted(arrays.items())
