# SPDX-License-Identifier: Apache-2.0
"""Hold what a user may say about data: one frozen record, with the same names in Python and on the command line."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from legcf.core.files import lasting

_UNITS = {"s": 1, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365.25 * 86_400}


def seconds_of(text: str) -> float:
    """Return a length of time such as 30d, 12h, 8w or 1y in seconds."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z])\s*", text.lower())
    if match is None or match[2] not in _UNITS or not float(match[1]):
        raise ValueError("give a length of time such as 30d, 12h, 8w or 1y")
    return float(match[1]) * _UNITS[match[2]]


OTHER_KINDS = "*"
"""Stands in `event_weights` for every kind of event that it does not name."""


def kind_weights(text: str) -> dict[str, float]:
    """Return the weight of each kind of event, from text such as `view=1,buy=10,hide=-1,*=0.5`."""
    weights: dict[str, float] = {}
    for part in text.split(","):
        kind, sign, number = (one.strip() for one in part.rpartition("="))
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not sign or not kind or not math.isfinite(weight) or kind in weights:
            raise ValueError("give each kind of event once with its weight, as in view=1,buy=10,hide=-1")
        weights[kind] = weight
    return weights


class DataOptions(BaseModel):
    """Say how a source is read and split. Every field has a default that suits most data.

    The names are those of the command line: `min_rating=4` is `--min-rating 4`.

    Example:
        ```python
        DataOptions(min_rating=4, k_core=5, protocol="temporal")
        ```
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    protocol: str | None = None
    """How pairs become train, validation and test; by default `legcf` for a folder with test.txt, else `ratio`."""
    split_seed: int = Field(default=2024, ge=0)
    """Seed of the split alone. It does not follow the seed of a run, so that every run has the same test set."""
    validation_ratio: float = Field(default=0.1, ge=0, lt=1)
    """Share of a user's pairs (of all pairs for `temporal`) that validates, for protocols that take a share."""
    test_ratio: float = Field(default=0.2, ge=0, lt=1)
    """Share of a user's pairs (of all pairs for `temporal`) that is tested on, for `ratio` and `temporal`."""
    user_col: str | None = None
    """Column of user ids; found by name by default."""
    item_col: str | None = None
    """Column of item ids; found by name by default."""
    rating_col: str | None = None
    """Column of ratings; found by name by default; only used together with `min_rating`."""
    time_col: str | None = None
    """Column of times; found by name by default; needed by `leave-last-out` and `temporal`."""
    date_format: str | None = Field(default=None, min_length=1)
    """How dates are written, as in `%d/%m/%Y %H:%M`; not needed for numbers and for ISO 8601."""
    weight_col: str | None = None
    """Column that says how much a pair counts, such as plays or a rating; repeated pairs add up."""
    event_col: str | None = None
    """Column that says what kind of event a row is, such as view or buy; goes together with `event_weights`."""
    event_weights: str | None = None
    """How much each kind of event counts, as in view=1,buy=10,hide=-1: 0 is left out, below 0 is a dislike;
    `*` stands for all other kinds, which are an error without it."""
    half_life: str | None = None
    """Older pairs count less: half as much after this time, such as 30d, 12h, 8w or 1y; needs times."""
    header: bool | None = None
    """Whether the first line of a text table names its columns. Without, columns go by number: user 1, item 2."""
    delimiter: str | None = Field(default=None, min_length=1, max_length=2)
    """Separator of fields in a text file, where it is not the usual one for the suffix."""
    min_rating: float | None = Field(default=None, allow_inf_nan=False)
    """Keep only pairs rated at least this; by default every pair counts, whatever its rating."""
    dislike_below: float | None = Field(default=None, allow_inf_nan=False)
    """Pairs rated lower are dislikes: no interactions, and never recommended to that user."""
    missing: Literal["fail", "drop"] = "fail"
    """What to do with rows that lack a value which is used: an error, or leave them out."""
    repeat: Literal["exclude", "allow"] = "exclude"
    """Whether users take items again, as groceries: rows are split instead of pairs, and what a user has competes."""
    k_core: int = Field(default=0, ge=0)
    """Drop users and items with fewer pairs than this, again and again until none is left; 0 keeps all."""
    titles: str | None = None
    """A second file with a name for each item."""
    title_col: str | None = None
    """Column of the names in the `titles` file (or, without one, in the table itself); found by name by default."""
    cold: Literal["error", "keep", "drop"] = "error"
    """What to do with users and items of test.txt that train.txt does not have."""
    duplicates: Literal["error", "merge"] | None = None
    """What to do with repeated pairs; by default an error in a LightGCN folder, merged in a table."""

    @field_validator("half_life")
    @classmethod
    def _is_a_time(cls, text: str | None) -> str | None:
        if text is not None:
            seconds_of(text)
        return text

    @field_validator("event_weights", mode="before")
    @classmethod
    def _written_out(cls, weights: Any) -> Any:
        """Take a mapping from Python as well as the text of the command line."""
        if isinstance(weights, Mapping):
            weights = ",".join(f"{kind}={weight}" for kind, weight in weights.items())
        if isinstance(weights, str):
            kind_weights(weights)
        return weights

    @property
    def weights_of_kinds(self) -> dict[str, float]:
        """Return `event_weights` as numbers."""
        return {} if self.event_weights is None else kind_weights(self.event_weights)

    @property
    def weighs(self) -> bool:
        """Return whether some pairs count more than others."""
        return self.weight_col is not None or self.half_life is not None or self.event_weights is not None

    @property
    def uses_ratings(self) -> bool:
        """Return whether ratings decide anything."""
        return self.min_rating is not None or self.dislike_below is not None

    @property
    def has_dislikes(self) -> bool:
        """Return whether some rows may be dislikes."""
        return self.dislike_below is not None or min(self.weights_of_kinds.values(), default=0.0) < 0

    @model_validator(mode="after")
    def _leaves_something_to_train_on(self) -> "DataOptions":
        if self.validation_ratio + self.test_ratio >= 1:
            raise ValueError(
                "validation_ratio and test_ratio together must be below 1, else nothing is left to train on"
            )
        if (self.event_col is None) != (self.event_weights is None):
            raise ValueError("event_col and event_weights go together: one names the kinds, the other weighs them")
        if self.weights_of_kinds and max(self.weights_of_kinds.values()) <= 0:
            raise ValueError("event_weights must give at least one kind of event a weight above 0")
        if self.min_rating is not None and self.dislike_below is not None and self.dislike_below > self.min_rating:
            raise ValueError("dislike_below must not be above min_rating, else a pair would be both")
        return self

    def reference(self, source: str | Path | Sequence[str | Path]) -> dict[str, Any]:
        """Return what finds and reads the same data again, from any folder."""
        options = self.model_dump(mode="json", exclude_defaults=True)
        if self.titles is not None:
            options["titles"] = lasting(self.titles)
        paths = lasting(source) if isinstance(source, str | Path) else [lasting(one) for one in source]
        return {"source": paths, "options": options}


DEFAULTS = DataOptions()
