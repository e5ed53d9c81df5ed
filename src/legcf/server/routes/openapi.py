# SPDX-License-Identifier: Apache-2.0
"""Describe the operations as an OpenAPI document."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from legcf import __version__
from legcf.server.routes.operations import Operation
from legcf.server.schemas import Problem

_DESCRIPTION = "Recommendations from one small file: no graph, no training set. Ids are those of the training data."
_REFERENCE = "#/components/schemas/{model}"
_SECURITY = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
_MEANING = {
    200: "The answer.",
    401: "The key is missing or wrong.",
    403: "A page of another site may have sent this.",
    404: "The model does not know this id.",
    409: "The model cannot do this as it was exported.",
    413: "The body is too large.",
    414: "The path and query are too long.",
    415: "The body is not said to be JSON.",
    422: "The request does not fit this document.",
    503: "Too much is waiting already.",
}


def document(operations: Sequence[Operation], key: bool) -> dict[str, Any]:
    """Return the OpenAPI document of all operations that have a summary; `key` says whether the server needs one."""
    operations = [operation for operation in operations if operation.summary is not None]
    models: dict[tuple[type[BaseModel], Literal["validation", "serialization"]], None] = {
        (Problem, "serialization"): None
    }
    for operation in operations:
        if operation.body:
            models[operation.body, "validation"] = None
        if operation.answer:
            models[operation.answer, "serialization"] = None
    _, schemas = models_json_schema(list(models), ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path.replace(":id}", "}"), {})[operation.method.lower()] = _describe(operation, key)
    content: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "legcf", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }
    if key:
        content["components"]["securitySchemes"] = _SECURITY
    return content


def _describe(operation: Operation, key: bool) -> dict[str, Any]:
    closed = key and not operation.open
    codes = {*operation.problems, *([401] if closed else []), *([403] if operation.method != "GET" else [])}
    codes |= {413, 415, 422} if operation.body else set()
    codes |= {414, 422} if operation.query else set()
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": f"{operation.method.lower()}{operation.path.replace(':id', '')}".translate(_NAME),
        "responses": {
            "200": _answer(200, operation.answer),
            **{str(code): _answer(code, Problem) for code in sorted(codes)},
        },
    }
    if operation.query:
        described["parameters"] = _parameters(operation.query, operation.path)
    if operation.body:
        described["requestBody"] = {"required": True, "content": _content(operation.body)}
    if closed:
        described["security"] = [{name: []} for name in _SECURITY]
    return described


_NAME = str.maketrans({"/": "_", "{": None, "}": None, "-": "_"})


def _parameters(query: type[BaseModel], path: str) -> list[dict[str, Any]]:
    schema = query.model_json_schema(ref_template=_REFERENCE)
    parameters = []
    for name, entry in schema["properties"].items():
        inside = f"{{{name}:" in path
        parameter = {"name": name, "in": "path" if inside else "query"}
        if "contentMediaType" in entry:  # written as JSON
            content = {**entry["contentSchema"], "default": entry["default"]}
            parameter["content"] = {entry["contentMediaType"]: {"schema": content}}
        else:
            parameter["schema"] = entry
        parameter["required"] = inside or name in schema.get("required", ())
        if "examples" in entry:
            parameter["example"] = entry["examples"][0]
        if "description" in entry:
            parameter["description"] = entry["description"]
        parameters.append(parameter)
    return parameters


def _answer(code: int, model: type[BaseModel] | None) -> dict[str, Any]:
    content = {"text/plain": {"schema": {"type": "string"}}} if model is None else _content(model)
    return {"description": _MEANING[code], "content": content}


def _content(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}}
