# SPDX-License-Identifier: Apache-2.0
"""Hold training settings that the presets of several methods share."""

from typing import Any

# The LEGCF paper's loop: 5 negatives per pair, about 2,048 triplets per step, the best epoch by NDCG@5.
PAPER_TRAINING: dict[str, Any] = {"batch_size": 410, "learning_rate": 1e-3, "l2": 5e-4, "monitor": "ndcg@5"}

# What trains well in minutes on two cores: a softmax over directions, its negatives shared by a large batch, so that
# few steps see many of them; half of a vector's length, in powers, counts in ranking (docs/study.md).
DEFAULT_TRAINING: dict[str, Any] = {
    "loss": "cosine", "temperature": 0.1, "negatives": 512, "batch_size": 8192,
    "learning_rate": 1e-2, "epochs": 20, "patience": 3, "schedule": "cosine", "validation_users": 10_000,
}  # fmt: skip
DEFAULT_RANKING: dict[str, Any] = {"norm_power": 0.5}

PLAIN_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"training": PAPER_TRAINING},
    "default": {"training": DEFAULT_TRAINING, "ranking": DEFAULT_RANKING},
}

# For the smallest layers: directions of rows that have two or three values, or share all of theirs, are soon learnt by
# heart (validation falls after an epoch); inner products take more epochs and end higher (docs/methods.md).
SMALL_TRAINING: dict[str, Any] = {**DEFAULT_TRAINING, "loss": "softmax", "temperature": 1.0}
