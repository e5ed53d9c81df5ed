# SPDX-License-Identifier: Apache-2.0
"""Declare queries, bodies and answers of the API, with their limits and an example each."""

from typing import Annotated, Any, Literal, Required

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Json,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

MAX_K = 500
MAX_BATCH = 100
MAX_EXPLAINED = 50
MAX_EVENTS = 1000  # in one request
MAX_LIST = 10_000  # ids in one history, allow or deny list
MAX_OFFSET = 10_000
MAX_DIVERSE = 500  # items of a list that is put together by diversity, all pages together


class Invalid(Exception):
    """Say in which field a request does not fit its schema."""


def complaints(part: str, error: ValidationError) -> str:
    """Return the first of what is wrong with a part of a request, as a sentence."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[:3]
    return "; ".join(f"{'.'.join([part, *map(str, one['loc'])])[:200]}: {one['msg']}" for one in found) + "."


def _whole(value: Any) -> Any:
    """Turn 5.0 into 5: JSON knows no integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Text = Annotated[str, Field(max_length=512)]
_Number = Annotated[int, Field(strict=True)]
Id = Annotated[_Number | _Text, BeforeValidator(_whole), Field(description="An id as it was in the training data.")]
_Count = Annotated[int, BeforeValidator(_whole), Field(strict=True)]
_YesNo = Annotated[bool, Field(strict=True)]
_Real = Annotated[float, Field(strict=True)]
_Feature = _Text | _YesNo | _Number | _Real
_Features = Annotated[
    dict[str, _Feature | Annotated[list[_Feature], Field(max_length=1000)] | None], Field(min_length=1, max_length=1000)
]
UserId = Annotated[str, Field(description="A user's id; any characters.", examples=["alice"])]
_K = Annotated[int, Field(ge=1, le=MAX_K, description="How many, at most.", examples=[5])]
_WHY = "Say why for so many of the first items."
_SEEN = "Leave out what the user is known to have."

_Value = _YesNo | _Number | _Real | _Text


def _form(condition: Any) -> str:
    """Return the form of a condition, so that what is wrong is said of that form, not of all."""
    if isinstance(condition, list):
        return "values"
    return "rule" if isinstance(condition, dict) else "value"


_One = Annotated[_Value, Tag("value")]
_More = Annotated[list[_Value], Field(max_length=MAX_LIST), Tag("values")]
_Values = Annotated[_One | _More, Discriminator(_form)]


class Span(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    min: _Real
    max: _Real
    any: _Values


_Denied = Annotated[_One | _More | Annotated[Span, Tag("rule")], Discriminator(_form)]
Condition = TypedDict("Condition", {"min": _Real, "max": _Real, "any": _Values, "not": _Denied}, total=False)
Condition.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
_FILTER = (
    "What attributes of items must be, all at once: a value, a list of values of which one will do, or an object with"
    ' `min` and `max`, `any`, or `not`, such as {"price": {"max": 20}, "brand": {"not": "A"}}.'
)
_USER_FEATURES = (
    "What is known of a user without items, by the names of the columns that the model learnt from; `user` may then be"
    " unknown. Items decide where there are any."
)
_CAP = 'At most so many of one value, by attribute, such as {"brand": 3}.'
Conditions = Annotated[
    dict[_Text, Annotated[_One | _More | Annotated[Condition, Tag("rule")], Discriminator(_form)]], Field(max_length=20)
]
CapOf = Annotated[dict[_Text, Annotated[int, Field(strict=True, ge=1), BeforeValidator(_whole)]], Field(max_length=5)]
Diversity = Annotated[
    float, Field(ge=0, le=1, description="0 for the best scores alone, up to 1 for items unlike each other.")
]
_OFFSET = "Pass over so many of the best: the next page, if nothing was reported meanwhile."
_CURSOR = "`next` of the page before, beside its other fields: goes on where it ended, whatever was reported meanwhile."
_DAMPING = "The share of a score that every impression (`POST /impressions`) without effect takes away; 0 for none."
_MAX_SHOWN = "Leave out what was shown so often or more without effect."
_HALF_LIFE = "Days after which an impression counts half."
_Cursor = Annotated[str, Field(max_length=512)]
_Days = Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)]
_Times = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]


class UserQuery(BaseModel):
    """Ask for a known user."""

    user: UserId
    k: _K = 20
    exclude_seen: bool | None = Field(None, description=_SEEN)
    explain: int = Field(0, ge=0, le=MAX_EXPLAINED, description=_WHY, examples=[2])
    filter: Json[Conditions] = Field({}, description=_FILTER)
    cap: Json[CapOf] = Field({}, description=_CAP)
    diversity: Diversity = 0.0
    offset: int = Field(0, ge=0, le=MAX_OFFSET, description=_OFFSET)
    cursor: _Cursor | SkipJsonSchema[None] = Field(None, description=_CURSOR)
    damping: float = Field(0.0, ge=0, le=1, description=_DAMPING)
    max_shown: _Times | SkipJsonSchema[None] = Field(None, description=_MAX_SHOWN)
    half_life: _Days = Field(7.0, description=_HALF_LIFE)


class ItemNeighboursQuery(BaseModel):
    item: str = Field(description="An item's id; any characters.", examples=["tea-green"])
    k: _K = 10


class ItemQuery(BaseModel):
    item: str = Field(max_length=512, description="An item's id; any characters.", examples=["tea-green"])


class ItemDeletion(ItemQuery):
    whole: bool = Field(False, description="Delete events, impressions and availability of the item as well.")


class UserNeighboursQuery(BaseModel):
    user: UserId
    k: _K = 10


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Ask(_Strict):
    """Ask for one: a known `user`, someone with these `items`, or a known user with news (both)."""

    user: Id | None = None
    items: list[Id] = Field(
        default=[],
        max_length=MAX_LIST,
        description="Items the user has, oldest first; unknown ones are listed in `ignored`.",
    )
    k: _Count = Field(20, ge=1, le=MAX_K)
    exclude_seen: _YesNo | None = Field(None, description=f"{_SEEN} That is `items` and the known user's history.")
    allow: list[Id] | None = Field(None, max_length=MAX_LIST, description="Recommend only from these items.")
    deny: list[Id] = Field(default=[], max_length=MAX_LIST, description="Never recommend these items.")
    explain: _Count = Field(0, ge=0, le=MAX_EXPLAINED, description=_WHY)
    filter: Conditions = Field({}, description=_FILTER)
    cap: CapOf = Field({}, description=_CAP)
    diversity: Annotated[Diversity, Field(strict=True)] = 0.0
    offset: _Count = Field(0, ge=0, le=MAX_OFFSET, description=_OFFSET)
    cursor: _Cursor | None = Field(None, description=_CURSOR)
    shown: dict[_Text, Annotated[_Real, Field(ge=0, le=1e6)]] = Field(
        default={}, max_length=MAX_LIST, description="How often items were shown, beside what was reported."
    )
    damping: Annotated[float, Field(strict=True)] = Field(0.0, ge=0, le=1, description=_DAMPING)
    max_shown: Annotated[_Times, Field(strict=True)] | None = Field(None, description=_MAX_SHOWN)
    half_life: Annotated[_Days, Field(strict=True)] = Field(7.0, description=_HALF_LIFE)
    features: _Features = Field({}, description=_USER_FEATURES)


_ASKS: list[Any] = [
    {"user": "alice", "k": 5, "explain": 2},
    {"items": ["tea-green", "cup-blue"], "k": 5, "deny": ["tea-black"]},
    {"user": "alice", "k": 5, "offset": 5, "shown": {"tea-green": 3}, "damping": 0.3},
    {"features": {"age": 31, "city": "Rome"}, "k": 5},
]


class AskMany(_Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"requests": _ASKS}]})

    requests: list[Ask] = Field(min_length=1, max_length=MAX_BATCH)


_EVENT_ID = "Yours, unique: what is sent again under the same id is counted once. Without one every sending counts."
_WHEN = "When it was, in seconds since 1970.  [default: now]"
_KIND = "What it was, such as view or buy: one of `--event-weights` of the training."
_WEIGHT = "How much it counts, whatever its kind; below 0 is a dislike.  [default: as the average]"
_EventId = Annotated[str, Field(min_length=1, max_length=200)]
_Kind = Annotated[str, Field(min_length=1, max_length=100)]
_Weight = Annotated[_Real, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
_Moment = Annotated[_Real | None, Field(ge=0, le=1e11, description=_WHEN, allow_inf_nan=False)]


class NewEvent(TypedDict, total=False):
    """Report that a user took an item. A request has a thousand, and dictionaries are read faster than models."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    user: Required[Id]
    item: Required[Id]
    id: Annotated[_EventId | None, Field(description=_EVENT_ID)]
    time: _Moment
    kind: Annotated[_Kind | None, Field(description=_KIND)]
    weight: Annotated[_Weight | None, Field(description=_WEIGHT)]


class TakenBackQuery(BaseModel):
    """Take back what was reported of a user and an item, or what the model was trained with."""

    user: Annotated[UserId, Field(max_length=512)]
    item: Annotated[str, Field(max_length=512, description="An item's id; any characters.", examples=["tea-green"])]
    id: _EventId | None = Field(None, description=_EVENT_ID)


class NewEvents(_Strict):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"events": [{"id": "order-7-line-1", "user": "alice", "item": "tea-green"}]}]}
    )

    events: list[NewEvent] = Field(min_length=1, max_length=MAX_EVENTS)


class PageShown(_Strict):
    user: Id
    items: list[Id] = Field(min_length=1, max_length=MAX_BATCH)
    time: _Moment = None


class Impressions(_Strict):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"impressions": [{"user": "alice", "items": ["tea-green", "cup-blue"]}]}]}
    )

    impressions: list[PageShown] = Field(min_length=1, max_length=MAX_BATCH)

    @model_validator(mode="after")
    def _is_short(self) -> "Impressions":
        if sum(len(page.items) for page in self.impressions) > MAX_EVENTS:
            raise ValueError(f"send at most {MAX_EVENTS} items at once, of all pages together")
        return self


class ItemNews(_Strict):
    """Report what is new about an item: whether it is to be had, what it is like, or both."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": ["features"]}, {"required": ["available"], "not": {"required": ["title"]}}],
            "examples": [{"available": True}, {"features": {"category": "tea", "price": 12.5}, "title": "White tea"}],
        }
    )

    available: _YesNo | SkipJsonSchema[None] = Field(
        None, description="Items that are not available are never recommended."
    )
    features: _Features | SkipJsonSchema[None] = Field(
        None,
        description="By the names of the columns that the model learnt from: they place an item that nobody has yet.",
    )
    title: _Text | SkipJsonSchema[None] = Field(None, description="How the item is shown; only with `features`.")

    @model_validator(mode="after")
    def _says_something(self) -> "ItemNews":
        if any(getattr(self, name) is None for name in self.model_fields_set):
            raise ValueError("null says nothing: leave the field out")
        if not self.model_fields_set & {"available", "features"}:
            raise ValueError("give `available`, or `features`, or both")
        if self.title is not None and self.features is None:
            raise ValueError("a `title` comes with `features`")
        return self


class Item(BaseModel):
    id: int | str
    title: str
    score: float


class Shared(BaseModel):
    """Name a meta-embedding that user and item share; `examples` are items it stands for."""

    meta: int
    contribution: float
    examples: list[Item]


class Why(BaseModel):
    item: int | str
    text: str = Field(description="The reason as a sentence to show.", examples=["Because you have Green tea."])
    score: float
    neighbours: float = Field(description="What the lists of the user's items add to the score; 0 if there are none.")
    shared: list[Shared]
    because: list[Item] = Field(description="Items of the user that speak for this one, with what they add.")


class Answer(BaseModel):
    model: str = Field(
        description="Which model answered: the beginning of its file's SHA-256.", examples=["3f9a1c04b7d2"]
    )


class Recommendations(Answer):
    user: int | str | None
    items: list[Item]
    why: list[Why] = []
    fallback: Literal["popular"] | None = Field(
        description="`popular` if nothing is known of the user and what most people like is given instead."
    )
    ignored: list[int | str] = Field(
        default=[], description="Ids of `items`, `allow`, `deny` and `shown` that this model does not know."
    )
    next: str | None = Field(description="The cursor of the next page; null if there is none.")


class Failed(BaseModel):
    """Say why one request of a batch has no result."""

    status: int = Field(description="The HTTP status it would have had by itself.")
    detail: str


class ManyRecommendations(Answer):
    """Answer all requests: both lists are in their order; where one has null, the other has not."""

    results: list[Recommendations | None]
    errors: list[Failed | None]


class Acknowledged(Answer):
    new: int = Field(description="Events that were not in the log before.")
    repeated: int = Field(description="Events whose id was there already, which change nothing.")
    unknown_items: list[int | str] = Field(description="Items of a later model, maybe: kept, but of no effect yet.")


class ImpressionsKept(Answer):
    kept: int = Field(description="Impressions that were written down.")


class ItemTaken(Answer):
    item: str
    available: bool | None = Field(description="As it was said; null where nothing was.")
    known: bool = Field(description="Whether the model has this item; if not, a later one may.")


class Similar(Answer):
    to: int | str
    items: list[Item]


class Problem(BaseModel):
    """Say in one sentence what is wrong and what to do."""

    detail: str


class Live(BaseModel):
    status: Literal["alive"]


class Ready(Answer):
    """Say whether the file on disk is served. With a warning the model in memory answers as before."""

    status: Literal["ready", "warning"]
    warning: str | None = Field(description="What is wrong with the file on disk.")


class Health(Ready):
    name: str
    users: int
    items: int
    loaded_at: float
