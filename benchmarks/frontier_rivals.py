# SPDX-License-Identifier: Apache-2.0
"""What stands beside model files in `frontier.py`: tables in full, in few bits and product quantised, ALS and EASE.

Each rival gives its rows as (name, row). A row counts the bytes of what is needed to rank and nothing else: no ids, no
header. Settings are chosen on validation, and only then is anything tested. Few bits are our own (turned, a scale per
row), product quantisation is faiss's: whoever compresses a full table gains from the same tricks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.core.hill_climb import climb
from legcf.data.interactions import Dataset
from legcf.evaluation.evaluate import evaluate, sample_eval_users
from legcf.factorisation.als import AlsSettings, confidences, factorise, with_alpha
from legcf.factorisation.half_step import solve_side
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.embedding_table import QuantisedTable
from legcf.training.loop import TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train

ComparisonRow = dict[str, Any]
EmbeddingTable = Iterator[tuple[str, ComparisonRow]]
_JUDGES = 5000  # users that choose settings
_TRIAL_FACTORS = 64  # wide enough to find α by
_FACTORS = (128, 256)
_FIRST_RIDGE, _LEAST_RIDGE, _MOST_RIDGE = 10.0, 1.25, 80.0
_EXACT = 16  # steps after which a user is solved from items
_POINTS_OF_A_CENTROID = 64  # to learn product quantisation from
_EASE_RIDGES = (30.0, 100.0, 300.0, 1000.0, 3000.0)
_MOST_ITEMS_OF_EASE = 10_000  # its matrix has items² values


@dataclass(frozen=True)
class Course:
    """One data set and the seed of all that is drawn."""

    dataset: Dataset
    seed: int

    def validated(self, ranking: Ranking) -> float:
        truth = self.dataset.validation
        eval_users = sample_eval_users(truth, _JUDGES, self.seed)
        return evaluate(ranking, truth, (20,), eval_users, ("ndcg",))["ndcg@20"]

    def tested(self, ranking: Ranking, bytes_: int, **told: Any) -> ComparisonRow:
        found = evaluate(ranking, self.dataset.test, (20,), metrics=("recall", "ndcg"))
        return {**{name: found[name] for name in ("recall@20", "ndcg@20")}, "bytes": bytes_, **told}


def full(course: Course) -> EmbeddingTable:
    """LightGCN's table of users and items, 64 wide, as it ranks: propagated."""
    ranking = train(course.dataset, resolve("full", seed=course.seed), TrainingOptions(quiet=True)).ranking
    cut = len(ranking.users)
    for name, bytes_, table in _compressed(np.vstack([ranking.users, ranking.items]), course.seed):
        rounded = replace(ranking, users=table[:cut], items=table[cut:])
        yield name, course.tested(rounded, bytes_, width=table.shape[1])


def als(course: Course) -> EmbeddingTable:
    """ALS: users and items as they are, then items alone, from which users are solved whenever they ask; and these
    with item lists beside them, as many entries as were solved."""
    known = course.dataset.train
    settings, users, items = _factorised(course)
    told = {"width": items.shape[1], "ridge": settings.regularisation, "alpha": settings.alpha}
    both = Ranking(users, items, known)
    yield "users and items, float32", course.tested(both, users.nbytes + items.nbytes, **told)
    by_user = confidences(known, settings)
    exactly = settings.model_copy(update={"gradient_steps": _EXACT})

    def folded(rounded: FloatArray) -> Ranking:
        solved = np.zeros_like(users)
        solve_side(by_user, solved, rounded, exactly)
        return Ranking(solved, rounded, known)

    for name, bytes_, table in _compressed(items, course.seed):
        yield f"items, {name}", course.tested(folded(table), bytes_, **told)
    ranking, fitter, listed = folded(items), ListFitter(known), resolve("legcf").ranking
    lists = fitter.lists(listed, known.num_items**2)
    weight, _ = fitter.weighed(ranking, lists, 1.0, lambda tried, _: course.validated(tried), listed)
    beside = fitter.added(ranking, lists, weight)
    told |= {"list_entries": lists.num_entries, "list_weight": weight}
    yield "items, float32, with lists", course.tested(beside, items.nbytes + lists.storage_bytes(), **told)


def _factorised(course: Course) -> tuple[AlsSettings, FloatArray, FloatArray]:
    """α by hidden training pairs, λ and then the width by validation."""
    known = course.dataset.train
    first = with_alpha(known, _TRIAL_FACTORS, np.random.default_rng(course.seed), AlsSettings())
    best: tuple[float, AlsSettings, FloatArray, FloatArray] | None = None

    def tried(width: int, ridge: float) -> float:
        nonlocal best
        settings = first.model_copy(update={"regularisation": ridge})
        users, items = factorise(known, width, np.random.default_rng(course.seed), settings)
        score = course.validated(Ranking(users, items, known))
        if best is None or score > best[0]:
            best = score, settings, users, items
        return score

    ridge = climb(lambda one: tried(_FACTORS[0], one), _FIRST_RIDGE, _LEAST_RIDGE, _MOST_RIDGE)
    for width in _FACTORS[1:]:
        tried(width, ridge)
    assert best is not None
    return best[1:]


def ease(course: Course) -> EmbeddingTable:
    """EASE (Steck, WWW 2019), every weight in float32; of too many items the bytes alone."""
    dataset, bytes_ = course.dataset, 4 * course.dataset.num_items**2
    if dataset.num_items > _MOST_ITEMS_OF_EASE:
        yield "float32", {"bytes": bytes_}
        return
    pairs = dataset.train.to_scipy().astype(np.float32)
    gram = np.asarray((pairs.T @ pairs).todense(), dtype=np.float64)
    users = np.asarray(pairs.todense(), dtype=np.float32)
    best: tuple[float, float, Ranking] | None = None
    for ridge in _EASE_RIDGES:
        inverse = np.linalg.inv(gram + ridge * np.eye(len(gram)))
        weights = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0)
        ranking = Ranking(users, np.ascontiguousarray(weights.T, dtype=np.float32), dataset.train)
        score = course.validated(ranking)
        if best is None or score > best[0]:
            best = score, ridge, ranking
    assert best is not None
    yield "float32", course.tested(best[2], bytes_, ridge=best[1])


RIVALS: dict[str, Callable[[Course], EmbeddingTable]] = {"full": full, "als": als, "ease": ease}


def _compressed(table: FloatArray, seed: int) -> Iterator[tuple[str, int, FloatArray]]:
    """The table as it is and in ever fewer bytes; turned or not, inner products within it stay."""
    table = np.ascontiguousarray(table, dtype=np.float32)
    yield "float32", table.nbytes, table
    for bits in (8, 4):
        rows = QuantisedTable.of(table, bits)
        yield f"{bits} bits", rows.packed_bytes, rows.vectors(slice(None))
    import faiss

    width = table.shape[1]
    for values in (4, 8):  # two values a byte are what four bits take
        quantiser = faiss.ProductQuantizer(width, width // values, 8)
        quantiser.cp.seed, quantiser.cp.min_points_per_centroid = seed, 1
        quantiser.cp.max_points_per_centroid = _POINTS_OF_A_CENTROID
        quantiser.train(table)
        codes = quantiser.compute_codes(table)
        # Centroids are kept in float16, and there are 256 of each few columns.
        decoded = quantiser.decode(codes).astype(np.float16).astype(np.float32)
        yield f"PQ, {values} values a byte", codes.nbytes + 256 * width * 2, decoded
