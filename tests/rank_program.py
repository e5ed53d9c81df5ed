# SPDX-License-Identifier: Apache-2.0
"""What `test_ranks` runs, alone and as one of two ranks: every result that ranks share, into one file."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from legcf import ranks
from legcf.assignment.matching_pursuit import encode
from legcf.errors import UserError
from legcf.evaluation import evaluate
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.spectral import singular_vectors
from legcf.ranking.ranking import Ranking
from legcf.ranking.ridge import find_candidates, solve
from legcf.training.sampler import Sampler
from tests.helpers import planted


def main(out: Path) -> None:
    ranks.join()
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
    found["passed"], found["batch"] = passed_through(Sampler(train, 64, 4, "interaction", "shared").of_rank())
    refuse()
    if ranks.is_first():
        np.savez(out, **found)
    ranks.leave()


def averaged_gradient() -> np.ndarray:
    """Of the mean of x over 0 … 9, three tenths of them on the first rank."""
    mine = ranks.own(np.array([0, 3, 10])) if ranks.count() == 2 else slice(0, 10)
    weight = torch.zeros((), requires_grad=True)
    (weight * torch.arange(10.0)[mine].mean()).backward()
    ranks.average_gradients([weight], mine.stop - mine.start)
    assert weight.grad is not None
    return np.array([weight.grad.item()])


def passed_through(sampler: Sampler) -> tuple[np.ndarray, np.ndarray]:
    """How often an epoch meets each pair, over all ranks, and how large its first batch is."""
    times = np.zeros((300, 120), dtype=np.int64)
    sizes = []
    for batch in sampler.epoch(ranks.own_generator(np.random.default_rng(4))):
        np.add.at(times, (batch.entities[batch.users], batch.entities[batch.positives] - 300), 1)
        sizes.append(batch.num_pairs)
    return ranks.total(times), ranks.total(np.array([sizes[0], 0]))


def refuse() -> None:
    """A sentence of the first rank is everyone's."""

    def ask() -> None:
        raise UserError("No.")

    with pytest.raises(UserError, match=r"^No\.$"):
        ranks.told(ask)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
