"""Recommendations from a serving model with numpy alone: no graph, no N × d table, no torch.

    y_ui = s_uᵀ G s_i,  G = H_meta H_metaᵀ

A user is projected once (g = H_meta h_u), after which an item costs t multiply-adds. Public methods speak in the ids
people use, private ones in positions.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from legcf.data.ids import ExternalId
from legcf.errors import UserError
from legcf.serving.artifact import ServingModel, popularity_counts
from legcf.serving.foldin import FoldInSolver
from legcf.serving.rows import CodedRows, FloatArray, Positions, Rows, measure

_SHRINK = 5.0
_BLOCK = 64 * (os.cpu_count() or 1)  # users projected at once: 32 for each core, as the compiled path takes them


@dataclass(frozen=True)
class Scored:
    """An entity (item or user) with its score; `name` is the title when there is one."""

    id: ExternalId
    score: float
    name: str


@dataclass(frozen=True)
class Request:
    """One wish for recommendations: a known user, a list of items, or both (a known user with news)."""

    user: ExternalId | None = None
    items: Sequence[ExternalId] = ()
    k: int = 20
    exclude_seen: bool = True
    allow: Sequence[ExternalId] | None = None
    deny: Sequence[ExternalId] = ()


@dataclass(frozen=True)
class Taste:
    """A request in positions: the user's vector and the items it is known to have."""

    vector: FloatArray
    history: Positions


class Scorer:
    """Answers questions about one model. Immutable, so threads share it; a new model is a new scorer."""

    def __init__(self, model: ServingModel) -> None:
        self.model = model
        self.examples: dict[tuple[int, bool], list[Scored]] = {}  # kept by `explain`

    @classmethod
    def load(cls, path: Path | str) -> "Scorer":
        return cls(ServingModel.load(Path(path)))

    def prepare(self) -> "Scorer":
        """Build the lookups that the first request would otherwise wait for."""
        self.model.items.find("")
        if self.model.users is not None:
            self.model.users.find("")
        self._measured  # noqa: B018 - cached on first use
        self.solver.prepare()
        return self

    @cached_property
    def solver(self) -> FoldInSolver:
        counts = popularity_counts(self.model.popularity)
        return FoldInSolver(self.model.item_rows, counts, self.model.fold_in, self._measured[0])

    @property
    def item_norms(self) -> FloatArray:
        return self._measured[1]

    @cached_property
    def _measured(self) -> tuple[NDArray[np.float64], FloatArray]:
        return measure(self.model.item_rows)

    def recommend(self, request: Request) -> list[Scored]:
        return self.recommend_taste(self.taste(request), request)

    def recommend_taste(self, taste: Taste, request: Request) -> list[Scored]:
        left_out = self.model.items.positions(request.deny)
        if request.exclude_seen:
            left_out = np.concatenate([left_out, taste.history])
        allowed = None if request.allow is None else self.model.items.positions(request.allow)
        scores = self.scores(taste)
        return self._named_items(*best(scores, request.k, left_out, allowed))

    def scores(self, taste: Taste) -> FloatArray:
        """Scores of all items, in item order. Someone of whom nothing is known gets what most people like."""
        if not taste.vector.any():
            return popularity_counts(self.model.popularity)
        rows = self.model.item_rows
        scores: FloatArray = rows.scores(rows.project(taste.vector[None]))[0]
        if self.model.item_bias is not None:
            scores += self.model.item_bias
        return scores

    def taste(self, request: Request) -> Taste:
        """A known user keeps its vector; new items, or a model without users, make it be solved from its history."""
        news = self.model.items.positions(request.items)
        user = None if request.user is None else self._user(request.user)
        known = self.history(user) if user is not None else np.zeros(0, dtype=np.int32)
        history = np.union1d(known, news).astype(np.int32)
        if user is not None and self.model.user_rows is not None:
            trained = self.model.user_rows.vectors(np.array([user]))[0]
            if len(history) == len(known):
                return Taste(trained, history)
            if not len(known):
                return Taste(self._blend(trained, history), history)
            # what the news change, added to what training knew
            return Taste(trained + self.solver.vector(history) - self.solver.vector(known), history)
        if user is not None and self.model.history is None:
            raise UserError(
                "This model stores no users and no histories: send the user's items, or export with --history."
            )
        return Taste(self.solver.vector(history), history)

    def history(self, user: int) -> NDArray[np.int32]:
        stored = self.model.history
        return np.zeros(0, dtype=np.int32) if stored is None else stored.of(user)

    def similar_items(self, item: ExternalId, k: int = 10) -> list[Scored]:
        """Items whose vectors point the same way: cosine, shrunk by n / (n + 5) for items of only n users.

        Where a handful of people decide, vectors point somewhere by chance, and some of thousands of rare items always
        point the right way.
        """
        position = self.model.items.position(item)
        cosines = self._cosines(self.model.item_rows, position, self.item_norms)
        counts = popularity_counts(self.model.popularity)
        cosines *= counts / (counts + _SHRINK)
        return self._named_items(*best(cosines, k, np.array([position]), None))

    def similar_users(self, user: ExternalId, k: int = 10) -> list[Scored]:
        position = self._user(user)
        if self.model.users is None or self.model.user_rows is None:
            raise UserError("This model stores no users, so none can be compared: export with `--users coded`.")
        cosines = self._cosines(self.model.user_rows, position, self._user_norms)
        found, scores = best(cosines, k, np.array([position]), None)
        ids = self.model.users.external(found)
        return [
            Scored(identifier, score, str(identifier)) for identifier, score in zip(ids, scores.tolist(), strict=True)
        ]

    def recommend_all(
        self, k: int = 20, exclude_seen: bool = True, compiled: bool | None = None
    ) -> tuple[NDArray[np.int32], FloatArray]:
        """Positions and scores of the best k items for every user (U × k), −1 where there are fewer.

        `compiled` uses numba (None: when it is installed and the model is coded); the answers are the same.
        """
        count = self._num_users()
        items = np.empty((count, k), dtype=np.int32)
        scores = np.empty((count, k), dtype=np.float32)
        for users, some_items, some_scores in self.recommend_blocks(k, exclude_seen, compiled):
            items[users], scores[users] = some_items, some_scores
        return items, scores

    def recommend_blocks(
        self, k: int = 20, exclude_seen: bool = True, compiled: bool | None = None
    ) -> Iterator[tuple[slice, NDArray[np.int32], FloatArray]]:
        """What `recommend_all` gives, some users at a time: to be written as it comes, whatever the number of users."""
        for users, vectors in self._user_vectors(self._num_users()):
            yield users, *self._top_block(users, vectors, k, exclude_seen, compiled)

    def _num_users(self) -> int:
        if self.model.users is None:
            raise UserError("This model stores no users: ask with lists of items instead.")
        return len(self.model.users)

    def _top_block(
        self, users: slice, vectors: FloatArray, k: int, exclude_seen: bool, compiled: bool | None
    ) -> tuple[NDArray[np.int32], FloatArray]:
        rows, bias, history = self.model.item_rows, self.model.item_bias, self.model.history
        projected = rows.project(vectors)
        if isinstance(rows, CodedRows) and compiled is not False:
            try:
                from legcf.serving.compiled import top_k
            except ImportError:
                if compiled:
                    raise
            else:
                seen = None if history is None or not exclude_seen else history.some(users.start, users.stop)
                return top_k(rows, projected, k, bias, seen)
        items = np.full((len(vectors), k), -1, dtype=np.int32)
        scores = np.full((len(vectors), k), -np.inf, dtype=np.float32)
        for row in range(len(vectors)):
            all_scores = rows.scores(projected[row : row + 1])[0]
            if bias is not None:
                all_scores += bias
            left_out = self.history(users.start + row) if exclude_seen else np.zeros(0, dtype=np.int32)
            found, values = best(all_scores, k, left_out, None)
            items[row, : len(found)], scores[row, : len(found)] = found, values
        return items, scores

    def _user_vectors(self, count: int) -> Iterator[tuple[slice, FloatArray]]:
        for start in range(0, count, _BLOCK):
            block = slice(start, min(start + _BLOCK, count))
            if self.model.user_rows is not None:
                yield block, self.model.user_rows.vectors(block)
            else:
                assert self.model.history is not None  # users without codes are stored for their histories
                yield block, self.solver.vectors(self.model.history.some(start, block.stop))

    def _blend(self, trained: FloatArray, news: Positions) -> FloatArray:
        """Without a stored history the news are all there is beside the trained vector: both count as much."""
        solved = self.solver.vector(news)
        length = float(np.linalg.norm(solved))
        blended: FloatArray = trained + solved * (float(np.linalg.norm(trained)) / length if length else 0.0)
        return blended

    def _cosines(self, rows: Rows, position: int, lengths: FloatArray) -> FloatArray:
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

    def _named_items(self, positions: NDArray[np.int64], scores: FloatArray) -> list[Scored]:
        ids = self.model.items.external(positions)
        pairs = zip(ids, scores.tolist(), positions.tolist(), strict=True)
        return [Scored(identifier, score, self.model.item_name(item)) for identifier, score, item in pairs]


def best(
    scores: FloatArray, k: int, left_out: Positions, allowed: Positions | None
) -> tuple[NDArray[np.int64], FloatArray]:
    """Positions and scores of the k highest, best first, lower position first among equals. `scores` is overwritten."""
    scores[left_out] = -np.inf
    if allowed is not None:
        inside = np.zeros(len(scores), dtype=np.bool_)
        inside[allowed] = True
        scores[~inside] = -np.inf
    k = min(k, len(scores))
    if k <= 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
    # everything that reaches the k-th score, so that equals at the border are told apart by position, not by chance
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    candidates = np.flatnonzero(scores >= border)
    candidates = candidates[np.isfinite(scores[candidates])]
    order = np.argsort(-scores[candidates], kind="stable")[:k]
    return candidates[order], scores[candidates[order]]
