"""What the server takes and gives: bodies of requests and responses, with their limits."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

MAX_K = 500
MAX_BATCH = 100
MAX_EXPLAINED = 50
MAX_LIST = 10_000  # ids in one history, allow or deny list


def _whole(value: Any) -> Any:
    """JSON knows no integers: 5.0 is 5 there."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Text = Annotated[str, StringConstraints(max_length=512)]
_Number = Annotated[int, Field(strict=True)]
Id = Annotated[_Number | _Text, BeforeValidator(_whole), Field(description="An id as it was in the training data.")]
_Count = Annotated[int, BeforeValidator(_whole), Field(strict=True)]
_YesNo = Annotated[bool, Field(strict=True)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Ask(_Strict):
    """One wish: a known `user`, someone with these `items`, or a known user with news (both)."""

    user: Id | None = None
    items: list[Id] = Field(
        default=[], max_length=MAX_LIST, description="Items the user has; unknown ones are an error."
    )
    k: _Count = Field(20, ge=1, le=MAX_K)
    exclude_seen: _YesNo = Field(True, description="Leave out `items` and the known user's history.")
    allow: list[Id] | None = Field(None, max_length=MAX_LIST, description="Recommend only from these items.")
    deny: list[Id] = Field(default=[], max_length=MAX_LIST, description="Never recommend these items.")
    explain: _Count = Field(0, ge=0, le=MAX_EXPLAINED, description="Say why for so many of the first items.")


class AskMany(_Strict):
    requests: list[Ask] = Field(min_length=1, max_length=MAX_BATCH)


class Item(BaseModel):
    id: int | str
    title: str
    score: float


class Shared(BaseModel):
    """A meta-embedding that user and item share; `examples` are items it stands for."""

    meta: int
    contribution: float
    examples: list[Item]


class Why(BaseModel):
    item: int | str
    score: float
    neighbours: float = Field(description="What users with items in common add to the score; 0 if the model has none.")
    shared: list[Shared]
    because: list[Item] = Field(description="Items of the user that speak for this one, with what they add.")


class Recommendations(BaseModel):
    user: int | str | None
    items: list[Item]
    why: list[Why] = []


class ManyRecommendations(BaseModel):
    results: list[Recommendations]


class Similar(BaseModel):
    to: int | str
    items: list[Item]


class Problem(BaseModel):
    """An error: one sentence that says what is wrong and what to do."""

    detail: str


class Health(BaseModel):
    status: str
    model: str
    users: int
    items: int
    loaded_at: float
