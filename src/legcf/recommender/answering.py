# SPDX-License-Identifier: Apache-2.0
"""Answer from a trained model in memory, in the ids that people use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import polars as pl

from legcf.core.arguments import as_count, as_ids
from legcf.core.columns import FrameColumns
from legcf.core.errors import UserError, python_arguments
from legcf.data.ids import ExternalId, IdMap
from legcf.data.interactions import Interactions
from legcf.export.build import build
from legcf.export.export import read_item_attributes
from legcf.export.options import ExportOptions
from legcf.modelfile.attributes import Attributes
from legcf.ranking.answers import Answers, answer_frame, best_items, id_column, most_similar
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import similar
from legcf.ranking.topk_numpy import empty_top_k
from legcf.scoring.scorer import Request, Scorer
from legcf.training.build import Model
from legcf.training.run_folder import TrainedModel


class Answering:
    """Recommend and find similar entities; `legcf.Recommender` adds how the model is made."""

    def _hold(self, trained: TrainedModel | None) -> None:
        """Answer from another model from now on."""
        self._trained = trained
        self._attributes: Attributes | None = None
        self._described: dict[str, Any] = {}
        self._scorer: Scorer | None = None

    def _validation(self) -> Interactions | None:
        """Return held-out pairs to choose how vectors are solved from items, where there are any."""
        return None

    @python_arguments
    def describe_items(self, table: str | Path | pl.DataFrame | Any, columns: Sequence[str] | None = None) -> Self:
        """Hold attributes of items for `recommend(filter=…)` and `export`, until the next `fit` or `update`.

        Args:
            table: A table with a row per item: its id, and attributes.
            columns: The columns to filter by; all of them by default.

        Returns:
            The recommender itself.
        """
        described: dict[str, Any] = {"items": table, "attributes": columns}
        self._attributes = read_item_attributes(self.trained, ExportOptions(**described))
        self._described, self._scorer = described, None
        return self

    @python_arguments
    def recommend(
        self,
        users: ExternalId | Iterable[ExternalId] | None = None,
        k: int = 20,
        exclude_seen: bool | None = None,
        unknown: Literal["error", "popular"] = "error",
        *,
        items: ExternalId | Iterable[ExternalId] = (),
        allow: ExternalId | Iterable[ExternalId] | None = None,
        deny: ExternalId | Iterable[ExternalId] = (),
        filter: Mapping[str, Any] | None = None,
        offset: int = 0,
        shown: Mapping[ExternalId, float] | None = None,
        damping: float = 0.0,
        max_shown: float | None = None,
        features: Mapping[str, Any] | None = None,
    ) -> pl.DataFrame:
        """Find the best items of some users, of all, or of somebody new.

        Args:
            users: An id, or several; all users by default, or with `items` or `features` somebody new.
            k: How many items for each, at most.
            exclude_seen: Whether to leave out what a user is known to have, `items` included; by default yes, unless
                the model was trained with `repeat="allow"`.
            unknown: What to do with ids that the model does not know: an error, or `popular` items.
            items: What somebody has, oldest first: of someone new, or beside what is known of the users.
            allow: Recommend nothing but these.
            deny: Recommend none of these.
            filter: What the attributes of items must be, as in `legcf.Request`; `describe_items` names them.
            offset: How many of the best to pass over: the second page of k begins at `offset=k`.
            shown: How often items were shown without effect, with `damping` and `max_shown` as in `legcf.Request`.
            damping: From 0 to 1: the share of a score that each time in `shown` takes away.
            max_shown: Leave out what was shown so often or more.
            features: What is known of somebody without items, where the model was fitted with `user_features`.

        Returns:
            A polars frame with the columns user, rank, item, score, title (where titles are known) and fallback, which
            is "popular" for users of whom nothing is known: they are shown what most people have.

        Example:
            ```python
            model.recommend("alice", k=3)["item"].to_list()
            model.recommend(items=["item-9", "item-12"], deny=["item-4"])
            ```
        """
        k = min(as_count(k, "The number of recommendations"), len(self.items))
        if unknown not in ("error", "popular"):
            raise UserError(f"unknown = {unknown!r} is not possible: choose error or popular.")
        request = Request(
            items=as_ids(items, "item"), k=k, exclude_seen=exclude_seen, deny=as_ids(deny, "item"),
            allow=None if allow is None else as_ids(allow, "item"), filter=filter or {},
            offset=offset, shown=shown or {}, damping=damping, max_shown=max_shown, features=features or {},
        )  # fmt: skip
        asked: Sequence[ExternalId | None]
        if users is None:
            asked = [None] if request.items or request.features else self.users.external(range(len(self.users)))
        else:
            asked = as_ids(users, "user")
        positions = [None if one is None else self.users.find(one) for one in asked]
        if unknown == "error":
            self.users.positions(
                one for one, position in zip(asked, positions, strict=True) if one is not None and position is None
            )
        if any(
            (request.items, request.deny, request.filter, request.shown, request.features, request.allow is not None)
        ):
            found = self._answered(positions, request)
        else:
            first = as_count(offset, "The offset", least=0) if offset else 0
            all_pages = best_items(self.full_history_ranking, positions, min(k + first, len(self.items)), exclude_seen)
            found = replace(all_pages, ranked=all_pages.ranked[:, first:], scores=all_pages.scores[:, first:])
        known = iter(self.users.external([position for position in positions if position is not None]))
        names = [  # as in the training data, not as they were typed
            one if position is None else next(known) for one, position in zip(asked, positions, strict=True)
        ]
        frame = answer_frame(id_column(FrameColumns.USER, names, self.users.is_text), found, self.items, self.titles)
        return frame.with_columns(pl.col(FrameColumns.RANK) + offset) if offset else frame

    def _answered(self, users: Sequence[int | None], request: Request) -> Answers:
        """Answer one request for each user, or for somebody new, as a model file would."""
        if self._scorer is None:
            pooled = self.ranking.pooling is not None
            whole = ExportOptions(format="full", users="history" if pooled else "coded", history=True)
            model = build(self.trained, whole, None if pooled else self._validation())
            self._scorer = Scorer(replace(model, attributes=self._attributes))
        ranked, scores = empty_top_k(len(users), request.k)
        popular = np.zeros(len(users), dtype=np.bool_)
        for row, user in enumerate(users):
            asked = replace(request, user=None if user is None else self.users.external([user])[0])
            best = self._scorer.recommend(asked)
            ranked[row, : len(best)] = self.items.positions(one.id for one in best)
            scores[row, : len(best)] = [one.score for one in best]
            popular[row] = any(one.fallback is not None for one in best)
        return Answers(ranked, scores, popular)

    @python_arguments
    def similar_items(self, items: ExternalId | Iterable[ExternalId], k: int = 10) -> pl.DataFrame:
        """Find the items most like some items, by the cosines of their vectors.

        Args:
            items: An id, or several.
            k: How many for each, at most.

        Returns:
            A polars frame with the columns to, rank, item, score, and title where titles are known.
        """
        k = as_count(k, "The number of similar items")
        positions = self.items.positions(as_ids(items, "item"))
        found = Answers(*similar(self.full_history_ranking, positions, k))
        asked = id_column(FrameColumns.TO, self.items.external(positions), self.items.is_text)
        return answer_frame(asked, found, self.items, self.titles)

    @python_arguments
    def similar_users(self, users: ExternalId | Iterable[ExternalId], k: int = 10) -> pl.DataFrame:
        """Find the users most like some users, by the cosines of their vectors.

        Args:
            users: An id, or several.
            k: How many for each, at most.

        Returns:
            A polars frame with the columns to, rank, user and score.
        """
        k = as_count(k, "The number of similar users")
        positions = self.users.positions(as_ids(users, "user"))
        found = most_similar(self.full_history_ranking.users, positions, k)
        asked = id_column(FrameColumns.TO, self.users.external(positions), self.users.is_text)
        return answer_frame(asked, found, self.users, named=FrameColumns.USER)

    @property
    def users(self) -> IdMap:
        """Return the ids of users, in the order of the model's rows."""
        return self.trained.users

    @property
    def items(self) -> IdMap:
        """Return the ids of items, in the order of the model's rows."""
        return self.trained.items

    @property
    def titles(self) -> list[str] | None:
        """Return the names of items in the same order, if the data had any."""
        return self.trained.titles

    @property
    def metrics(self) -> dict[str, Any]:
        """Return what training ended with: accuracy on the held-out parts, size, time and settings."""
        return self.trained.metrics

    @property
    def curve(self) -> list[dict[str, Any]]:
        """Return a line per epoch."""
        return self.trained.curve

    @property
    def ranking(self) -> Ranking:
        """Return the ranking as it was tested: its histories are the training pairs."""
        return self.trained.ranking

    @property
    def full_history_ranking(self) -> Ranking:
        """Return the ranking that recommends: with all that is known of its users."""
        return self.trained.full_history_ranking

    @property
    def model(self) -> Model:
        """Return layer, backbone and graph: what was trained."""
        return self.trained.model

    @property
    def trained(self) -> TrainedModel:
        """Return the model with all it needs: what `export` makes a file of."""
        if self._trained is None:
            raise UserError("This recommender has not been fitted yet: call fit(data) or Recommender.load(folder).")
        return self._trained
