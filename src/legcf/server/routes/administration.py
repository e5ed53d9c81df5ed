# SPDX-License-Identifier: Apache-2.0
"""List users and items, export what is held of a user, and delete users: for whoever has the server's key."""

import hashlib
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from legcf.server import schemas
from legcf.server.answers import UnknownId
from legcf.server.encoding import Json
from legcf.server.logs import log
from legcf.server.routes.operations import Operation, read_query
from legcf.server.routes.services import Services
from legcf.server.state.log_entries import DeletedUser
from legcf.server.state.records import Records


class OneUser(BaseModel):
    user: Annotated[schemas.UserId, Field(max_length=512)]


class ListQuery(BaseModel):
    offset: int = Field(0, ge=0, le=10**9, description="How many to pass over.")
    limit: int = Field(100, ge=1, le=1000, description="How many, at most.", examples=[100])


class UserListed(BaseModel):
    user: int | str
    in_file: bool = Field(description="Whether the model file has the user; if not, there are events.")
    events: int


class UserList(schemas.Answer):
    count: int = Field(description="Of all users, not of this page.")
    users: list[UserListed]


class ItemListed(BaseModel):
    item: int | str
    title: str
    users: int = Field(description="Who has it, in the training data.")
    available: bool
    known: bool = Field(description="Whether the model has the item; if not, there are reports of it.")
    events: int


class ItemList(schemas.Answer):
    count: int = Field(description="Of all items, not of this page.")
    items: list[ItemListed]


class UserData(schemas.Answer):
    user: str
    in_file: bool
    history: list[int | str] = Field(description="What the model file says that the user has.")
    dislikes: list[int | str] = Field([], description="What it says that the user does not want; left out if nothing.")
    events: list[dict[str, Any]] = Field(description="Rows of the event log.")
    impressions: list[dict[str, Any]] = Field(description="Rows of the event log.")


class UserDeleted(schemas.Answer):
    user: str
    in_file: bool = Field(description="Whether the file has the user, whose data in it are not used from now on.")
    events: int = Field(description="How many were deleted.")
    impressions: int = Field(description="How many were deleted.")


class AdministrationApi:
    """Declare its operations for any server; one without a key routes none of them, one without a log no deletion."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def operations(self) -> list[Operation]:
        get = partial(Operation, "GET", problems=(503,), query=ListQuery, name="administration")
        export = partial(get, query=OneUser, answer=UserData, problems=(404, 503))
        held, query = "All that is held of a user: history, events, impressions", "with the id in the query."
        return [
            get("/users", "Who is known, of the file and by events.", self.users, answer=UserList),
            get("/items", "Which items are known, and which are available.", self.items, answer=ItemList),
            export("/user-data/{user:id}", f"{held}.", self.export),
            export("/user-data", f"{held}, {query}", self.export),
        ]

    def deletions(self) -> list[Operation]:
        erase = partial(Operation, "DELETE", query=OneUser, answer=UserDeleted, problems=(404, 503))
        erased = "Delete all that is held of a user, who is unknown until there are new events"
        return [
            erase("/users/{user:id}", f"{erased}.", self.delete, name="administration"),
            erase("/users", f"{erased}, with the id in the query.", self.delete, name="administration"),
        ]

    async def users(self, request: HttpRequest) -> Response:
        query = read_query(request, ListQuery)
        found = await self._look(lambda records: records.users(query.offset, query.limit))
        audit(request, self._services, "users_listed", count=len(found["users"]))
        return self._answer(found)

    async def items(self, request: HttpRequest) -> Response:
        query = read_query(request, ListQuery)
        return self._answer(await self._look(lambda records: records.items(query.offset, query.limit)))

    async def export(self, request: HttpRequest) -> Response:
        user, found = await self._found(request)
        audit(request, self._services, "user_exported", user=user)
        return self._answer(found)

    async def delete(self, request: HttpRequest) -> Response:
        user, found = await self._found(request)
        assert self._services.journal is not None
        await self._services.journal.write([DeletedUser(user, time.time())])
        counts = {"events": len(found["events"]), "impressions": len(found["impressions"])}
        audit(request, self._services, "user_deleted", user=user, in_file=found["in_file"], **counts)
        return self._answer({"user": user, "in_file": found["in_file"], **counts})

    async def _found(self, request: HttpRequest) -> tuple[str, dict[str, Any]]:
        """Return the user that a request names, and all that is held of it."""
        user = read_query(request, OneUser).user
        found = await self._look(lambda records: records.of_user(user))
        if found is None:
            raise UnknownId("user", user)
        return user, found

    async def _look(self, find: Callable[[Records], Any]) -> Any:
        """Look in the slow queue: there may be many users."""
        services = self._services
        return await services.slow_queue.in_thread(lambda: find(Records(services.manager.current, services.live)))

    def _answer(self, content: dict[str, Any]) -> Response:
        return Json({"model": self._services.manager.current.tag, **content})


def audit(request: HttpRequest, services: Services, action: str, user: str | None = None, **facts: Any) -> None:
    """Write down what was done by whom. A user's id is a digest, so that whoever has the id finds the line, unless ids
    are logged anyway."""
    if user is not None:
        digest = hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()
        facts |= {"user": user} if services.settings.log_ids else {"user_sha256": digest}
    client = None if request.client is None else request.client.host
    log("administration", action=action, **facts, client=client, request_id=request.scope.get("request_id"))
