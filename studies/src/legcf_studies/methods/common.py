# SPDX-License-Identifier: Apache-2.0
"""Share what several of the methods need: presets, sizes within a budget, starts."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import nn

from legcf.embeddings.budget import bytes_of_budget, stored_values, too_small
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf.embeddings.layer import xavier_values


@dataclass(frozen=True)
class ComparisonRow:
    """Describe a row of the table that compares all methods (the paper's Table 2).

    `comparison_rows` of a layer has them by name: one under the method's own name if it is empty or not there, none at
    all if it is None.
    """

    label: str
    group: str = "variable size"
    within_budget: bool = True
    """Whether it has to keep to LEGCF's budget; methods of one size end where their own settings lead."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    reference: bool = False
    """Not a rival for the best: it is not compressed."""
    fitted: Mapping[str, Any] = field(default_factory=dict)
    """Settings with which it starts from a factorisation, if it can and does not do so anyway."""


# The LEGCF paper's loop: 5 negatives per pair, about 2,048 triplets per step, the best epoch by NDCG@5.
PAPER_TRAINING: dict[str, Any] = {"batch_size": 410, "learning_rate": 1e-3, "l2": 5e-4, "monitor": "ndcg@5"}

PLAIN_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"training": PAPER_TRAINING},
    "default": {"training": DEFAULT_TRAINING, "ranking": DEFAULT_RANKING},
}

# For the smallest layers: directions of rows that have two or three values, or share all of theirs, are soon learnt by
# heart (validation falls after an epoch); inner products take more epochs and end higher (docs/methods.md).
SMALL_TRAINING: dict[str, Any] = {**DEFAULT_TRAINING, "loss": "softmax", "temperature": 1.0}


def largest_within(
    budget: int | str | None, entities: int, most: int, values: Callable[[int], int], stored: Callable[[int], int]
) -> int:
    """Return the largest size from 1 to `most` whose values, or bytes if the budget is in bytes, are within it.

    Without a budget it is that of a LEGCF model. Both must grow with the size.
    """
    allowed = bytes_of_budget(budget)
    count = values if allowed is None else stored
    allowed = stored_values(budget or "legcf", entities) if allowed is None else allowed
    size = bisect_right(range(1, most + 1), allowed, key=count)
    if not size:
        raise too_small(allowed, count(1), "stored values" if count is values else "bytes")
    return size


def ensure_within(budget: int | str | None, num_entities: int, values: int) -> None:
    """Refuse sizes, set or solved, that store more values than a budget allows."""
    if budget is not None and values > (allowed := stored_values(budget, num_entities)):
        raise too_small(allowed, values)


def take_saved_shapes(module: nn.Module, *names: str) -> None:
    """Let a loaded state give these parameters and buffers its shapes, for what grows or shrinks in training."""

    def resize(module: nn.Module, state: Mapping[str, torch.Tensor], prefix: str, *_: Any) -> None:
        for name in names:
            tensor, saved = getattr(module, name), state.get(prefix + name)
            if saved is not None and saved.shape != tensor.shape:
                tensor.grad = None
                tensor.data = torch.empty_like(saved)

    module.register_load_state_dict_pre_hook(resize)  # type: ignore[no-untyped-call]


def ones_at(columns: NDArray[np.integer], width: int) -> sp.csr_matrix:
    """Return the sparse matrix with a one at every row's columns; a column named twice counts twice."""
    rows, each = columns.shape
    ones = np.ones(rows * each, dtype=np.float32)
    matrix = sp.csr_matrix((ones, columns.ravel().astype(np.int32), np.arange(0, rows * each + 1, each)), (rows, width))
    matrix.sum_duplicates()
    return matrix


def xavier_uniform(shape: tuple[int, int], rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy(xavier_values(shape, rng))
