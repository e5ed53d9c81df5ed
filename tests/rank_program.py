# SPDX-License-Identifier: Apache-2.0
"""What `tests/core/test_distributed.py` asks of one rank and of two: every result that ranks share, into one file."""

from pathlib import Path

import numpy as np
import pytest
import torch

from legcf.assignment.matching_pursuit import encode
from legcf.core import distributed
from legcf.core.config import TrainingConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.evaluation.evaluate import evaluate
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.spectral import singular_vectors
from legcf.ranking.item_lists.ridge import find_candidates, solve
from legcf.ranking.ranking import Ranking
from legcf.training.loop import Session, TrainingOptions
from legcf.training.registry import METHODS, resolve
from legcf.training.run import build_model
from legcf.training.sampler import Sampler
from tests.helpers import planted


def main(out: Path) -> None:
    distributed.join()
    torch.set_num_threads(1)
    dataset = planted(300, 120, 4000)
    train, found = dataset.train, {}
    users, items = factorise(train, 8, np.random.default_rng(1), AlsSettings(alpha=5.0, rounds=3))
    found["als"] = users @ items.T
    vectors = singular_vectors(train, 4, np.random.default_rng(2))
    found["singular"] = vectors @ vectors.T  # four communities that are alike: any turn of their space will do
    by_item = train.transposed()
    candidates = find_candidates(train, 9, by_item)
    solved = solve(train, candidates, (0.5, 2.0), 0.5, by_item)
    found |= {"candidates": candidates.items, "weights": solved.weights, "gains": solved.gains}
    rows = np.random.default_rng(3).standard_normal((50, 8)).astype(np.float32)
    indices, weights = encode(rows, rows[:20], 2)
    found |= {"codes": indices, "code_weights": weights}
    metrics = evaluate(Ranking(rows[np.arange(300) % 50], rows[np.arange(120) % 50], train), dataset.validation)
    found["metrics"] = np.array(list(metrics.values()))
    found["gradient"] = averaged_gradient()
    found |= passed_through(Sampler(train, TrainingConfig(batch_size=63, negatives=4), "shared").of_rank())
    found["trained"] = trained(dataset)
    refuse()
    if distributed.is_first():
        np.savez(out, **found)
    distributed.leave()


def averaged_gradient() -> np.ndarray:
    """Of the mean of x over 0 … 9, three tenths of them on the first rank."""
    mine = distributed.local_rows(np.array([0, 3, 10])) if distributed.world_size() == 2 else slice(0, 10)
    weight = torch.zeros((), requires_grad=True)
    (weight * torch.arange(10.0)[mine].mean()).backward()
    distributed.average_gradients([weight], mine.stop - mine.start)
    assert weight.grad is not None
    return np.array([weight.grad.item()])


def passed_through(sampler: Sampler) -> dict[str, np.ndarray]:
    """How often an epoch meets each pair, what each of its batches sums up to, over all ranks, and their negatives."""
    times = np.zeros((300, 120), dtype=np.int64)
    sums, negatives = [], []
    for batch in sampler.epoch(np.random.default_rng(4)):
        users, items = batch.entities[batch.users], batch.entities[batch.positives] - 300
        counts = (batch.weights > 0).astype(np.int64)
        np.add.at(times, (users, items), counts)
        sums.append([(counts * (users * 120 + items) ** 2).sum(), counts.sum()])
        negatives.append(batch.entities[batch.negatives])
    return {
        "passed": distributed.all_reduce_sum(times),
        "batches": distributed.all_reduce_sum(np.array(sums)),
        "negatives": np.array(negatives),
    }


def trained(dataset: Dataset) -> np.ndarray:
    """The codebook after an epoch, by shared negatives."""
    changes = {"method": {"c": 16, "dim": 8}, "training": {"epochs": 1, "batch_size": 63, "negatives": 16}}
    config = resolve("legcf", preset="items-only", overrides=changes)
    model = build_model(config, dataset, np.random.default_rng(10), None)  # no tie decides its codes
    stages = METHODS["legcf"].recipe(config.method, config.training)
    Session(model, dataset, config, stages, np.random.default_rng(6), TrainingOptions(quiet=True)).run()
    return model.layer.array("codebook")


def refuse() -> None:
    """A sentence of the first rank is everyone's."""

    def ask() -> None:
        raise UserError("No.")

    with pytest.raises(UserError, match=r"^No\.$"):
        distributed.run_on_first_and_broadcast(ask)
