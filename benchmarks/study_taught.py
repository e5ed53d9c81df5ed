# SPDX-License-Identifier: Apache-2.0
"""What a graph model can teach a codebook that costs no byte more for it.

    python benchmarks/study_taught.py DATA [--protocol P] [--bytes 1.66MB] [--seeds 11 12 13]

The teacher is what `legcf train --method full` trains. Codes of the size that `--bytes` gives them are coded and
trained once a seed and way: on pairs alone; on the teacher's first items as further positives, drawn by the softmax of
its scores; on these scores themselves, as a softmax over a part of its first items; and on pairs, from vectors to which
a hop over the item graph was added before they were coded. Or codes stay as pairs made them, and lists are taught: the
teacher's first items are further targets of their regressions, whose matrix stays that of the pairs. What the teacher
says is of items that the user does not have. Lists take the bytes that codes leave, their weight is climbed on some
validation users, accuracy is that of the others (`study_views.py`). Without validation pairs a third of the training
pairs is held out from all of this. Test pairs are not touched. Written to benchmarks/results/views.json.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from study_views import ALPHAS, CHOOSERS, RESULTS, RIDGES, Study, View

from legcf.core.arrays import FloatArray, IntArray, inverse_power
from legcf.core.config import RankingConfig, RunConfig, parse_bytes
from legcf.core.files import write_json
from legcf.core.random_streams import Stream
from legcf.data.interactions import Dataset, Interactions
from legcf.data.options import DataOptions
from legcf.data.source import load_data
from legcf.evaluation.evaluator import Evaluator
from legcf.factorisation.als import factorise
from legcf.graph.adjacency import degree_normalised
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.item_lists.ridge import Solved, _systems, find_candidates, strongest
from legcf.ranking.precision import as_stored
from legcf.ranking.ranking import Ranking
from legcf.ranking.score import Score, lead
from legcf.ranking.topk import rank
from legcf.training.build import TrainingGraph, make_model
from legcf.training.learning.losses import without_own_pair
from legcf.training.loop import Session
from legcf.training.model import GraphModel
from legcf.training.registry import BACKBONES, METHODS, resolve
from legcf.training.run import _with_sizes
from legcf.training.sampler import TrainingBatch
from legcf.training.session import TrainingOptions

FIRST, SHOWN, COMPARED = 100, 48, 1024  # items of the teacher; of these in a step's softmax, and users in it
FIRST_OF_LISTS, BLOCK = 50, 2048  # items of the teacher that lists are taught by; small systems at a time
HELD_OUT = 1 / 3


@dataclass(frozen=True, eq=False)
class Teacher:
    """Hold the first items of every user that it does not have, and their scores in units of their own spread."""

    items: IntArray
    scores: FloatArray

    @classmethod
    def of(cls, ranking: Ranking, train: Interactions) -> "Teacher":
        items, scores = rank(ranking, FIRST, np.arange(train.num_users), train)
        spread = scores.std(axis=1, keepdims=True) + np.float32(1e-9)
        return cls(items, ((scores - scores[:, :1]) / spread).astype(np.float32))


class Taught(Session):
    """Train on pairs and on what a teacher says of their users."""

    teacher: Teacher | None = None
    weight, of_scores = 0.0, False

    def step(self, batch: TrainingBatch) -> float:
        teacher, users = self.teacher, batch.entities[batch.users]
        if teacher is None:
            return super().step(batch)
        if self.of_scores:
            rows = self.rng.permutation(batch.num_pairs)[:COMPARED]
            columns = np.broadcast_to(np.sort(self.rng.permutation(FIRST)[:SHOWN]), (len(rows), SHOWN))
        else:
            rows = np.arange(batch.num_pairs)
            shares = np.cumsum(np.exp(teacher.scores[users]), axis=1)
            drawn = self.rng.random(len(rows)) * shares[:, -1]
            columns = np.minimum((drawn[:, None] > shares).sum(axis=1), FIRST - 1)[:, None]
        items = teacher.items[users[rows][:, None], columns].astype(np.int64) + batch.num_users
        entities = np.concatenate([batch.entities, np.setdiff1d(items, batch.entities)])
        order = np.argsort(entities)
        places = order[np.searchsorted(entities, items, sorter=order)]
        everything = torch.from_numpy(entities)
        encoded, _ = self.model.encoded(everything, batch.fold, self.rng)
        loss = self.loss_of(*without_own_pair(self.model, encoded, everything, batch))
        if self.of_scores:
            of_users, of_items = encoded[torch.from_numpy(batch.users[rows])], encoded[torch.from_numpy(places)]
            said = torch.softmax(torch.from_numpy(teacher.scores[users[rows][:, None], columns]), dim=1)
            answers = torch.log_softmax((of_items @ of_users[:, :, None])[:, :, 0], dim=1)
            taught = -(torch.from_numpy(batch.weights[rows]) * (said * answers).sum(dim=1)).mean()
        else:
            taught = self.loss_of(encoded, replace(batch, positives=places[:, 0]))
        self.optimiser.zero_grad()
        (loss + self.weight * taught).backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.item()


class TaughtLists(ListFitter):
    """Solve lists by the teacher's first items as well: M s = G_Ci + w · Rᵀ D T_i, T the shares of its scores."""

    def __init__(self, train: Interactions, byte_budget: int, teacher: Teacher, weight: float) -> None:
        super().__init__(train, byte_budget)
        shares = weight * np.exp(teacher.scores[:, :FIRST_OF_LISTS])
        starts = np.arange(0, shares.size + 1, shares.shape[1])
        items = teacher.items[:, :FIRST_OF_LISTS].ravel()
        self._said = sp.csr_matrix((shares.ravel(), items, starts), (train.num_users, train.num_items))

    def _solve(self, count: int, config: RankingConfig) -> Solved:
        return self._taught(find_candidates(self.train, count, self._by_item), config)

    def _strongest(self, solved: Solved, config: RankingConfig, entries: int, refit: bool = True) -> Solved:
        if entries >= solved.candidates.num_pairs:
            return solved
        kept = solved.candidates.subset(strongest(solved.gains[0], entries))
        return self._taught(kept, config)

    def _taught(self, candidates: Interactions, config: RankingConfig) -> Solved:
        train, ridge, user_power = self.train, config.list_ridge, config.list_user_power
        user_weights = inverse_power(train.user_degrees, user_power).astype(np.float32)
        unit = float((train.user_degrees * user_weights).sum()) / train.num_items
        met = (train.to_scipy().astype(np.float32).T @ sp.diags(user_weights) @ self._said).tocsr()
        weights, gains = (np.zeros((1, candidates.num_pairs), dtype=np.float32) for _ in range(2))
        for start in range(0, train.num_items, BLOCK):
            rows = np.arange(start, min(start + BLOCK, train.num_items))
            some = candidates.of_users(rows)
            systems = _systems(train, self._by_item, candidates, user_weights, rows)
            matrices, right = systems[:, :, :-1], systems[:, :, -1]
            if not some.num_pairs:
                continue
            of, place = some.users(), np.arange(some.num_pairs) - some.indptr[some.users()]
            right[of, place] += np.asarray(met[some.items, rows[of]]).ravel()
            inverse = np.linalg.inv(matrices + np.float32(ridge * unit) * np.eye(matrices.shape[1], dtype=np.float32))
            solution = np.einsum("nij,nj->ni", inverse, right)[of, place]
            at = slice(candidates.indptr[rows[0]], candidates.indptr[rows[-1] + 1])
            weights[0, at], gains[0, at] = solution, solution**2 / inverse[of, place, place]
        return Solved(candidates, weights, gains)


@dataclass(frozen=True, eq=False)
class Codes:
    """Make and train the codes of one data set."""

    config: RunConfig
    dataset: Dataset
    teacher: Teacher

    def trained(self, seed: int, weight: float = 0.0, of_scores: bool = False, hop: float = 0.0) -> GraphModel:
        train, method = self.dataset.train, self.config.method
        users, items = factorise(train, method.dim, np.random.default_rng(seed), method.als)  # type: ignore[attr-defined]
        if hop:
            graph = degree_normalised(train)
            moved = graph.T @ (graph @ items)
            moved = items + hop * np.linalg.norm(items) / np.linalg.norm(moved) * moved
            items = (moved * np.linalg.norm(items) / np.linalg.norm(moved)).astype(np.float32)
        rng = np.random.default_rng(seed)
        layer: Any = METHODS["legcf"].trained_layer(method, train.num_users, train.num_items)
        layer.initialise_from(users, items, train, rng)
        backbone = BACKBONES[self.config.backbone.name](self.config.backbone, layer.width)
        model = GraphModel(layer, backbone, train, self.config.training)  # torch: a formula knows no teacher
        model.rebuild()
        stages = METHODS["legcf"].recipe(method, self.config.training)
        session = Taught(model, _unwatched(self.dataset), self.config, stages, rng, TrainingOptions(quiet=True))
        if weight:
            session.teacher, session.weight, session.of_scores = self.teacher, weight, of_scores
        session.run()
        return model


LIST_WEIGHTS = (0.2, 0.5)
WAYS: dict[str, dict[str, Any]] = {
    "pairs": {},
    "pairs and first items, half as much": {"weight": 0.5},
    "pairs and first items, a tenth": {"weight": 0.1},
    "pairs and scores, half as much": {"weight": 0.5, "of_scores": True},
    "a hop of 0.25 before coding": {"hop": 0.25},
    "a hop of 0.5 before coding": {"hop": 0.5},
}


def graph_ranking(dataset: Dataset, als: dict[str, float]) -> Ranking:
    """Train a full table over the graph."""
    config = resolve("full", overrides={"method": {"als": als}, "training": {"keep": "last"}})
    rng, train = np.random.default_rng(0), dataset.train
    model = make_model(config, train, lambda made: made.layer.initialise(train, rng), TrainingGraph())
    stages = METHODS["full"].recipe(config.method, config.training)
    session = Session(model, _unwatched(dataset), config, stages, rng, TrainingOptions(quiet=True))
    session.run()
    return session.ranking()


def _unwatched(dataset: Dataset) -> Dataset:
    """Return the data with nothing to validate epochs by."""
    train = dataset.train
    return replace(dataset, validation=Interactions.empty(train.num_users, train.num_items))


def compared(study: Study, codes: Codes, users: IntArray, seeds: Sequence[int], keep: Callable[..., None]) -> None:
    """Measure every way with every seed, and compare it with pairs alone of the same seed."""
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in seeds:
        usual: Score | None = None

        def measure(name: str, view: View, by: Study, seed: int = seed) -> None:
            nonlocal usual
            row, score = by.measured([view])
            usual = usual or score
            ahead = lead(score, usual)
            row |= {"seed": seed, "lead": ahead.difference / usual, "error": ahead.error / usual}
            row["alone"] = _accuracy(view.ranking, by.others)
            found.setdefault(name, []).append(row)
            facts = {metric: mean(one[metric] for one in found[name]) for metric in ("recall@20", "ndcg@20", "lead")}
            keep(name, {**facts, "seeds": found[name]})

        for name, way in WAYS.items():
            ranking = as_stored(codes.trained(seed, **way).ranking(users), None)
            assert ranking.rows is not None
            view = View(ranking, ranking.rows.packed_bytes)
            measure(name, view, study)
            if way:
                continue
            for weight in LIST_WEIGHTS:
                lists = TaughtLists(codes.dataset.train, study.byte_budget, codes.teacher, weight)
                measure(f"lists taught, {weight:g}", view, replace(study, fitter=lists))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--protocol", default="legcf")
    parser.add_argument("--bytes", type=parse_bytes, default=1_660_000)
    parser.add_argument("--seeds", nargs="*", type=int, default=[11, 12, 13])
    asked = parser.parse_args()
    dataset = load_data(asked.data, DataOptions(protocol=asked.protocol, cold="keep"))
    if not dataset.validation.num_pairs:
        dataset = dataset.holding_out(HELD_OUT, Stream.SELECTION_PAIRS.generator(0))
    train = dataset.train
    als = {"alpha": ALPHAS.get(asked.data.name, 10.0)}
    als |= {"regularisation": RIDGES[asked.data.name]} if asked.data.name in RIDGES else {}
    asked_for = {"ranking": {"bytes": asked.bytes}, "method": {"als": als}, "training": {"keep": "last"}}
    config, byte_budget = _with_sizes(resolve("legcf", overrides=asked_for), dataset)
    assert byte_budget is not None
    users = Evaluator(dataset.validation).evaluated_users
    everyone, places = Evaluator(dataset.validation, users=users).renumbered(), np.arange(len(users))
    step = max(3, len(users) // CHOOSERS)
    chooser, others = (replace(everyone, users=places[some]) for some in (places % step == 0, places % step != 0))
    settings = RankingConfig(lists=None, bytes=asked.bytes)
    study = Study(ListFitter(train, byte_budget), settings, byte_budget, chooser, others)
    graph = graph_ranking(dataset, als)
    keep_in = f"{asked.data.name} {asked.protocol} {asked.bytes} taught"

    def keep(name: str, row: Any) -> None:
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}  # another study may have written to it
        known.setdefault(keep_in, {})[name] = row
        print(asked.data.name, name, json.dumps({key: row[key] for key in row if key != "seeds"}), flush=True)
        write_json(RESULTS, known)

    keep("teacher alone", _accuracy(replace(graph, users=graph.users[users], histories=train.of_users(users)), others))
    compared(study, Codes(config, dataset, Teacher.of(graph, train)), users, asked.seeds, keep)


def _accuracy(ranking: Ranking, evaluator: Evaluator) -> dict[str, float]:
    metrics, _ = evaluator.scored(ranking)
    return {name: metrics[name] for name in ("recall@20", "ndcg@20")}


if __name__ == "__main__":
    main()
