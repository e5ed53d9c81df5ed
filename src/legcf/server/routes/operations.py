# SPDX-License-Identifier: Apache-2.0
"""Declare an operation of the server once: its route, its schemas, its name in counters, whether it needs a key.

The router, the gate that every request passes (`legcf.server.middleware`) and the OpenAPI document (`openapi`) follow
from it.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from legcf.server.schemas import Invalid, complaints

_Model = TypeVar("_Model", bound=BaseModel)
Endpoint = Callable[[HttpRequest], Awaitable[Response]]


class _AnyText(PathConvertor):
    """Match an id in a path: whatever characters it has, slashes and newlines too."""

    regex = r"[\s\S]*"


register_url_convertor("id", _AnyText())


@dataclass(frozen=True)
class Operation:
    """Hold all that is said of an operation. `path` is in Starlette's form; its parameters are fields of `query`. An
    `answer` of None is plain text; one without a `summary` is of the page, and not in the OpenAPI document."""

    method: str
    path: str
    summary: str | None
    endpoint: Endpoint
    answer: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    problems: tuple[int, ...] = ()  # statuses of its own errors; those of key, query and body are added
    open: bool = False  # needs no key
    name: str = field(kw_only=True)
    """The name that requests are counted and logged under: few names, whatever people ask for."""


class RouteTable:
    """Find the operation that a path belongs to, before it is routed."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._by_path: dict[str, dict[str, Operation]] = {}  # the path, or what stands before its parameter; method
        self._names: dict[str, str] = {}
        for operation in operations:
            path = operation.path.partition("{")[0]
            self._by_path.setdefault(path, {})[operation.method] = operation
            if folder := _folder(path):
                self._names.setdefault(folder, operation.name)

    def name(self, method: str, path: str) -> str:
        """Return the name that a request is counted under; "other" if no operation is in the path's folder."""
        operations = self._at(path)
        if not operations:
            return self._names.get(_folder(path), "other")
        return operations.get(method, next(iter(operations.values()))).name

    def is_open(self, method: str, path: str) -> bool:
        """Return whether a request needs no key; one that nothing answers needs it."""
        operations = self._at(path)
        if method in operations:
            return operations[method].open
        return bool(operations) and all(operation.open for operation in operations.values())

    def _at(self, path: str) -> dict[str, Operation]:
        return self._by_path.get(path) or self._by_path.get(_folder(path)) or {}


def _folder(path: str) -> str:
    """Return "/a/" of "/a/b", and nothing of "/a"."""
    return path[: path.find("/", 1) + 1]


def read_query(request: HttpRequest, query: type[_Model]) -> _Model:
    """Read the parameters of the query and of the path, which win."""
    try:
        return query.model_validate({**request.query_params, **request.path_params})
    except ValidationError as error:
        raise Invalid(complaints("query", error)) from error


async def read_body(request: HttpRequest, body: type[_Model]) -> _Model:
    try:
        return body.model_validate_json(await request.body())
    except ValidationError as error:
        raise Invalid(complaints("body", error)) from error


def routes(operations: Sequence[Operation]) -> list[Route]:
    """Make one route for each path, with all its methods: so the answer to a wrong method names all right ones."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation.endpoint
    return [Route(path, _by_method(endpoints), methods=list(endpoints)) for path, endpoints in by_path.items()]


def _by_method(endpoints: dict[str, Endpoint]) -> Endpoint:
    async def dispatch(request: HttpRequest) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return dispatch
