# SPDX-License-Identifier: Apache-2.0
"""Recommend from a served model with numpy alone: no graph, no N × d table, no torch.

    y_ui = s_uᵀ G s_i,  G = H_meta H_metaᵀ

A user is projected once (g = H_meta h_u), after which an item costs t multiply-adds. Where the file has item lists,
what those of the user's items add is added. Public methods speak in the ids people use, private ones in positions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legcf.core import notebook_repr
from legcf.core.arguments import as_count, check_shares
from legcf.core.arrays import FloatArray, Positions
from legcf.core.errors import UserError
from legcf.data.ids import ExternalId, IdMap
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.popularity import trust
from legcf.ranking.tables.embedding_table import EmbeddingTable, measure
from legcf.ranking.topk_numpy import top_k
from legcf.scoring.batch import blocks
from legcf.scoring.extend import started
from legcf.scoring.foldin import UserMaker, UserProfile, blended, user_maker, weighed_history
from legcf.scoring.impressions import damp
from legcf.scoring.rules import Candidates, Caps, Filter, Order, allowed_items, choose_list
from legcf.scoring.settle import ItemOrder

_NONE = np.zeros(0, dtype=np.int32)
_NUMBER = "The number of recommendations"


class Scored(NamedTuple):
    """Hold an entity (item or user) with its score; `name` is the title when there is one."""

    id: ExternalId
    score: float
    name: str
    fallback: str | None = None
    """"popular" where it was chosen for what most people have, since nothing is known of the user."""


@dataclass(frozen=True)
class Request:
    """Ask for recommendations: for a known user, for a list of items, or both (a known user with new items).

    Args:
        user: The id of a user that the model knows.
        items: What somebody has, oldest first: of someone new, or beside what is known of the user.
        k: How many items, at most.
        exclude_seen: Whether to leave out what the user is known to have, `items` included; by default yes, unless the
            model was trained with `repeat="allow"`. What the user dislikes is always left out.
        allow: Recommend nothing but these.
        deny: Recommend none of these.
        filter: What the attributes of items must be (`legcf.scoring.rules`).
        cap: At most so many items of one value, by attribute.
        diversity: From 0, the best scores, to 1, as unlike each other as possible.
        offset: How many of the best to pass over: the second page of k begins at `offset=k`.
        shown: How often items were shown without effect; `legcf.scoring.impressions` counts with a half-life.
        damping: From 0 to 1: the share of a score that each time in `shown` takes away.
        max_shown: Leave out what was shown so often or more.
        features: What is known of somebody without items, where the model has a map from features of users.

    Example:
        ```python
        Request(user="alice", items=["item-9"], k=5)
        ```
    """

    user: ExternalId | None = None
    items: Sequence[ExternalId] = ()
    k: int = 20
    exclude_seen: bool | None = None
    allow: Sequence[ExternalId] | None = None
    deny: Sequence[ExternalId] = ()
    filter: Filter = field(default_factory=dict)
    cap: Mapping[str, int] = field(default_factory=dict)
    diversity: float = 0.0
    offset: int = 0
    shown: Mapping[ExternalId, float] = field(default_factory=dict)
    damping: float = 0.0
    max_shown: float | None = None
    features: Mapping[str, Any] = field(default_factory=dict)


class Scorer(notebook_repr.Shown):
    """Answer questions about one model file, with numpy alone.

    A scorer does not change, so threads share it; a new model is a new scorer.

    Args:
        model: What a model file holds; `Scorer.load` reads one.
        path: The file it came from, to be named when the scorer is shown.

    Example:
        ```python
        scorer = Scorer.load("model.legcf")
        scorer.recommend(Request(user="alice", k=10))
        ```
    """

    def __init__(self, model: ServedModel, path: Path | None = None) -> None:
        self.model = model
        self.path = path
        self.examples: dict[tuple[int, bool], list[Scored]] = {}  # kept by `explain`

    @classmethod
    def load(cls, path: Path | str) -> "Scorer":
        """Read a model file of `legcf export` or `legcf compress`; every size and the checksum are verified.

        Raises:
            UserError: The file is not there, damaged, or none of legcf's.
        """
        return cls(ServedModel.load(Path(path)), Path(path))

    def prepare(self) -> "Scorer":
        """Build the lookups that the first request would otherwise wait for, and return the scorer itself."""
        self.model.items.find("")
        if self.model.users is not None:
            self.model.users.find("")
        self._measured, self.order  # noqa: B018 - cached on first use
        self.solver.prepare()
        return self

    @cached_property
    def solver(self) -> UserMaker:
        """Return what makes a user's vector of its items."""
        # Users that are sums of their items need no Gram matrix, which takes longer than all else of one answer.
        return user_maker(self.model, None if self.model.pooling is not None else self._measured[0])

    @cached_property
    def order(self) -> ItemOrder:
        """Return what settles the order of scores that differ by rounding alone."""
        return ItemOrder(self.model)

    @property
    def item_norms(self) -> FloatArray:
        """Return the lengths of the items' vectors."""
        return self._measured[1]

    @cached_property
    def _measured(self) -> tuple[NDArray[np.float64], FloatArray]:
        return measure(self.model.item_rows)

    def recommend(self, request: Request) -> list[Scored]:
        """Find the best items for one request.

        Returns:
            Items with id, score, name and `fallback`, best first. Somebody of whom nothing is known gets what most
            people have, and `fallback` says "popular".
        """
        return self.recommend_for_profile(self.profile(request), request)

    def recommend_for_profile(self, profile: UserProfile, request: Request, hidden: Positions = _NONE) -> list[Scored]:
        """Find the best items for a profile that is at hand already.

        Args:
            profile: What `profile(request)` returned.
            request: What may be shown.
            hidden: Positions of items that nobody is shown at the moment.

        Returns:
            The best items, as `recommend` gives them.
        """
        k, offset = as_count(request.k, _NUMBER), as_count(request.offset, "The offset", least=0)
        check_shares(diversity=request.diversity, damping=request.damping)
        seen = profile.history if self.model.excludes_seen(request.exclude_seen) else _NONE
        left_out = np.concatenate([self.model.items.positions(request.deny), hidden, seen, profile.disliked])
        inside = allowed_items(self.model.attributes, request.filter) if request.filter else None
        if request.allow is not None:
            listed = np.zeros(len(self.model.items), dtype=np.bool_)
            listed[self.model.items.positions(request.allow)] = True
            inside = listed if inside is None else inside & listed
        scores = self.scores(profile)
        order: Order | None = partial(self.order.best, profile)
        if request.shown and (request.damping or request.max_shown is not None):
            too_often = damp(scores, self.model.items, request.shown, request.damping, request.max_shown)
            left_out, order = np.concatenate([left_out, too_often]), None
        candidates, end = Candidates(scores, left_out, inside, order), k + offset
        vectors = self.model.item_rows.vectors if request.diversity else None
        caps = partial(Caps, self.model.attributes, request.cap) if request.cap or request.diversity else None
        positions, values = choose_list(candidates, vectors, k, end, request.diversity, caps)
        return _named(self.model.items, self.model.titles, positions[offset:], values[offset:], self.fallback(profile))

    def fallback(self, profile: UserProfile) -> Literal["popular"] | None:
        """Say what is recommended if nothing is known: neither vector nor history make a difference between items."""
        lists = self.model.lists
        if profile.vector.any() or (lists is not None and lists.scores(profile.history, profile.relative).any()):
            return None
        return "popular"

    def scores(self, profile: UserProfile, projected: FloatArray | None = None) -> FloatArray:
        """Score all items, in item order. Someone of whom nothing is known gets what most people like.

        Args:
            profile: A user's vector and items.
            projected: What `item_rows.project` gives for that vector, if it is at hand.

        Returns:
            A score per item.
        """
        if self.fallback(profile) is not None:
            return self.model.popularity.astype(np.float32)
        rows = self.model.item_rows
        scores: FloatArray = rows.scores(rows.project(profile.vector[None]) if projected is None else projected)[0]
        if self.model.item_bias is not None:
            scores += self.model.item_bias
        if self.model.lists is not None:
            self.model.lists.add_to(scores, profile.history, profile.relative)
        return scores

    def profile(self, request: Request, more: Positions = _NONE, taken_back: Positions = _NONE) -> UserProfile:
        """Turn a request into a vector and a history.

        A known user keeps its vector; new items, or a model without users, make it be solved from its history.
        Features decide where there is neither vector nor history.

        Args:
            request: Who asks.
            more: Positions of items that the user took meanwhile, oldest first.
            taken_back: Positions of items that count no more, whatever the file says of them.

        Returns:
            What scores are computed from.
        """
        news = np.concatenate([self.model.items.positions(request.items), more])
        user = None if request.user is None else self._user(request.user)
        known = self.history(user) if user is not None else _NONE
        disliked = _NONE
        if user is not None and self.model.dislikes is not None:
            disliked = np.setdiff1d(self.model.dislikes.of_user(user), taken_back)
        kept = np.setdiff1d(known, taken_back) if len(taken_back) else known
        profile = replace(self._made(user, known, kept, news), disliked=disliked)
        return started(self.model, profile, request.features) if request.features else profile

    def _made(self, user: int | None, known: Positions, kept: Positions, news: Positions) -> UserProfile:
        """Return the vector of what is kept of a user's known items, and of news."""
        stored = self.model.history
        history, relative = weighed_history(self.model, user, known, kept, news)
        if user is not None and self.model.user_rows is not None:
            trained = self.model.user_rows.vectors(np.array([user]))[0]
            if np.array_equal(history, known):
                return UserProfile(trained, history, relative)
            if not len(known):
                return UserProfile(blended(self.solver, trained, history), history)
            # what the news change, added to what training knew
            before = self.solver.vector(known, None if stored is None else stored.relative(user, known))
            return UserProfile(trained + self.solver.vector(history, relative) - before, history, relative)
        if user is not None and self.model.history is None:
            raise UserError(
                "This model stores no users and no histories: send the user's items, or export with --history."
            )
        return UserProfile(self.solver.vector(history, relative), history, relative)

    def history(self, user: int) -> NDArray[np.int32]:
        """Return what a user is known to have, both as positions."""
        stored = self.model.history
        return _NONE if stored is None else stored.of_user(user)

    def similar_items(self, item: ExternalId, k: int = 10, hidden: Positions = _NONE) -> list[Scored]:
        """Find the items most like one: cosines of vectors, bias apart, shrunk where only few users decide.

        Args:
            item: An id.
            k: How many, at most.
            hidden: Positions of items that nobody is shown at the moment.

        Returns:
            Items with their scores, best first.
        """
        position = self.model.items.position(item)
        cosines = self._cosines(self.model.item_rows, position, self.item_norms)
        cosines *= trust(self.model.popularity)
        count = as_count(k, "The number of similar items")
        return _named(self.model.items, self.model.titles, *top_k(cosines, count, np.append(hidden, position)))

    def similar_users(self, user: ExternalId, k: int = 10, hidden: Positions = _NONE) -> list[Scored]:
        """Find the users most like one, where the file holds vectors of users (`legcf export --users coded`).

        Args:
            user: An id.
            k: How many, at most.
            hidden: Positions of users that nobody is shown.

        Returns:
            Users with their scores, best first.
        """
        position = self._user(user)
        if self.model.users is None or self.model.user_rows is None:
            raise UserError("This model stores no users, so none can be compared: export with `--users coded`.")
        cosines = self._cosines(self.model.user_rows, position, self._user_norms)
        count = as_count(k, "The number of similar users")
        return _named(self.model.users, None, *top_k(cosines, count, np.append(hidden, position)))

    def recommend_all(
        self, k: int = 20, exclude_seen: bool | None = None, compiled: bool | None = None
    ) -> tuple[NDArray[np.int32], FloatArray]:
        """Find the best items of every user at once.

        Args:
            k: How many for each.
            exclude_seen: Whether to leave out what a user is known to have.
            compiled: Whether to use numba (None: when it is installed and of use); the answers are the same.

        Returns:
            Positions and scores (users × k), −1 where there are fewer; `model.items.external` gives the ids.
        """
        count, k = self._num_users(), as_count(k, _NUMBER)
        items = np.empty((count, k), dtype=np.int32)
        scores = np.empty((count, k), dtype=np.float32)
        for users, some_items, some_scores in self.recommend_blocks(k, exclude_seen, compiled):
            items[users], scores[users] = some_items, some_scores
        return items, scores

    def recommend_blocks(
        self, k: int = 20, exclude_seen: bool | None = None, compiled: bool | None = None
    ) -> Iterator[tuple[slice, NDArray[np.int32], FloatArray]]:
        """Give what `recommend_all` gives, some users at a time: to be written as it comes, however many there are.

        Args:
            k: How many for each.
            exclude_seen: Whether to leave out what a user is known to have.
            compiled: As in `recommend_all`.

        Yields:
            A slice of users, and positions and scores for them.
        """
        return blocks(self, self._num_users(), as_count(k, _NUMBER), self.model.excludes_seen(exclude_seen), compiled)

    def _facts(self) -> notebook_repr.Facts:
        model = self.model
        users = (
            f"{len(model.users):,} users by id" if model.users is not None else "no users: a request brings its items"
        )
        metrics = model.card.get("metrics")
        test = metrics.get("test") if isinstance(metrics, dict) else None
        scores = [(name, test.get(name)) for name in ("recall@20", "ndcg@20")] if isinstance(test, dict) else []
        accuracy = [f"{name} {score:.4f}" for name, score in scores if isinstance(score, float)]
        rows = {
            **({"file": self.path.name} if self.path else {}),
            **({"size": notebook_repr.size(self.path.stat().st_size)} if self.path and self.path.exists() else {}),
            "holds": f"{len(model.items):,} items, {users}",
            **({"accuracy": ", ".join(accuracy)} if accuracy else {}),
        }
        return notebook_repr.Facts("Scorer", rows, f"legcf serve {self.path or 'model.legcf'}")

    def _num_users(self) -> int:
        if self.model.users is None:
            raise UserError("This model stores no users: ask with lists of items instead.")
        return len(self.model.users)

    def _cosines(self, rows: EmbeddingTable, position: int, lengths: FloatArray) -> FloatArray:
        vector = rows.vectors(np.array([position]))
        cosines: FloatArray = rows.scores(rows.project(vector))[0] / (lengths * lengths[position])
        return cosines

    @cached_property
    def _user_norms(self) -> FloatArray:
        assert self.model.user_rows is not None
        return measure(self.model.user_rows)[1]

    def _user(self, identifier: ExternalId) -> int:
        if self.model.users is None:
            raise UserError("This model stores no users: send the user's items instead of an id.")
        return self.model.users.position(identifier)


def _named(
    ids: IdMap, titles: list[str] | None, positions: NDArray[np.int64], scores: FloatArray, fallback: str | None = None
) -> list[Scored]:
    named = ids.external(positions)
    names = [str(identifier) for identifier in named] if titles is None else [titles[index] for index in positions]
    entries = zip(named, scores.tolist(), names, strict=True)
    return [Scored(identifier, score, name, fallback) for identifier, score, name in entries]
