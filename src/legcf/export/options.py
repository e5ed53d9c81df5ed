# SPDX-License-Identifier: Apache-2.0
"""Decide what a model file holds, and in which form."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from legcf.core.errors import UserError
from legcf.modelfile.served_model import DTYPES

if TYPE_CHECKING:
    from legcf.training.run_folder import TrainedModel

_CHOICES = {
    "dtype": (*DTYPES, None),
    "format": ("coded", "full", "web", "vectors"),
    "users": ("coded", "history", "none", None),
}


@dataclass(frozen=True)
class ExportOptions:
    """Say what goes into a model file. What is None follows from the model.

    Attributes:
        t: Meta-embeddings per row: the model's own, else 4.
        c: Meta-embeddings in all: the model's own, else 500.
        dtype: How numbers are stored: `int8` with scales (the default), `float16`, or `float32` (that of `full`).
        format: `coded`, `full` for the propagated table, `web` for a folder with a page that any static host serves, or
            `vectors` for a folder with ids and vectors that a vector search reads.
        users: `coded`: asked for by id, with a code of their vector; `history`: by id, with what they have; `none`:
            every request brings the user's items. By default what the model's users are; `none` after `train --bytes`
            and in pages, which others read.
        history: Whether to store what users have: yes, unless `users` is `none`.
        titles: Whether to store titles of items, if there are any.
        items: A table with a row for each item: its id, and attributes to filter by.
        attributes: Columns of `items` to keep; all by default.
        evaluate: Whether to measure accuracy before and after, if the data is still there.
        seed: Seed of the codebook's start and of the samples.
        quiet: Whether to show no progress.
    """

    t: int | None = None
    c: int | None = None
    dtype: str | None = None
    format: str = "coded"
    users: str | None = None
    history: bool | None = None
    titles: bool = True
    items: Any = None
    attributes: Sequence[str] | None = None
    evaluate: bool = True
    seed: int = 0
    quiet: bool = True

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise UserError(f"{name} = {value!r} is not possible: choose {' or '.join(filter(None, choices))}.")
        coding = {"-t": self.t, "-c": self.c, "--dtype": self.dtype, "--history": self.history, "--items": self.items}
        if self.format == "vectors" and (names := [name for name, value in coding.items() if value is not None]):
            raise UserError(f"--format vectors writes vectors as they are: leave out {', '.join(names)}.")
        if self.attributes is not None and self.items is None:
            raise UserError("--attributes names columns of a table: give the table with --items.")

    def resolved(self, trained: "TrainedModel") -> "ExportOptions":
        """Fill in what follows from the model; one made to keep to a size gives a file of that size, without users."""
        has_byte_size = isinstance(trained.card.get("config", {}).get("ranking", {}).get("bytes"), int)
        pooled = trained.ranking.pooling is not None
        if pooled and self.users == "coded":
            raise UserError("Users of this model are their histories and have no vectors: use --users history or none.")
        users = self.users
        if users is None and pooled:
            users = "none" if has_byte_size and self.format != "full" else "history"
        users = users or "coded"
        if self.format == "vectors":
            return replace(self, users=users)
        history = self.history if self.history is not None else users != "none"
        return replace(
            self, dtype=self.dtype or ("float32" if self.format == "full" else "int8"), users=users, history=history
        )
