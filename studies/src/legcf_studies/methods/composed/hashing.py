# SPDX-License-Identifier: Apache-2.0
"""Hash universally in 64-bit integers: the same numbers on every machine."""

import numpy as np
import torch

PRIME = 2**31 - 1  # a · id + b stays below 2⁶² for every id below it


def draw_constants(count: int, rng: np.random.Generator) -> torch.Tensor:
    """Draw (a, b) of `count` hash functions, 2 × count; a is never 0."""
    return torch.from_numpy(np.stack([rng.integers(1, PRIME, count), rng.integers(0, PRIME, count)]))


def hashed(ids: torch.Tensor, constants: torch.Tensor, buckets: int) -> torch.Tensor:
    """Return ((a · id + b) mod p) mod buckets, a row per id and a column per hash function."""
    multiplier, shift = constants
    result: torch.Tensor = (ids.long()[:, None] * multiplier + shift) % PRIME % buckets
    return result
