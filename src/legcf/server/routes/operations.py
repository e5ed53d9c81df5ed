# SPDX-License-Identifier: Apache-2.0
"""An operation of the API: its route and its schemas. The OpenAPI document follows from them (`openapi`)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

_Model = TypeVar("_Model", bound=BaseModel)
Endpoint = Callable[[HttpRequest], Awaitable[Response]]


class _AnyText(Convertor[str]):
    """An id in a path: whatever characters it has, slashes and newlines too."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _AnyText())


@dataclass(frozen=True)
class Operation:
    """`path` is in Starlette's form; its parameters are fields of `query`. An answer of None is plain text."""

    method: str
    path: str
    summary: str
    endpoint: Endpoint
    answer: type[BaseModel] | None
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    problems: tuple[int, ...] = ()
    open: bool = False  # asks for no key


class Invalid(Exception):
    """A request that does not fit its schema."""

    def __init__(self, place: str, error: ValidationError) -> None:
        complaints = [
            f"{'.'.join([place, *(str(part) for part in complaint['loc'])])[:200]}: {complaint['msg']}"
            for complaint in error.errors(include_url=False, include_context=False, include_input=False)[:3]
        ]
        super().__init__("; ".join(complaints) + ".")


def read_query(request: HttpRequest, query: type[_Model]) -> _Model:
    """The query's parameters and the path's, which win."""
    try:
        return query.model_validate({**request.query_params, **request.path_params})
    except ValidationError as error:
        raise Invalid("query", error) from error


async def read_body(request: HttpRequest, body: type[_Model]) -> _Model:
    try:
        return body.model_validate_json(await request.body())
    except ValidationError as error:
        raise Invalid("body", error) from error


def routes(operations: Sequence[Operation]) -> list[Route]:
    """One route a path, whatever the number of its methods: so a wrong method is told all that are right."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation.endpoint
    return [Route(path, _by_method(endpoints), methods=list(endpoints)) for path, endpoints in by_path.items()]


def _by_method(endpoints: dict[str, Endpoint]) -> Endpoint:
    if len(endpoints) == 1:
        return next(iter(endpoints.values()))

    async def choose(request: HttpRequest) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return choose
