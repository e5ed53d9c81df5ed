# SPDX-License-Identifier: Apache-2.0
"""Hold training settings that the presets of several methods share."""

from typing import Any

# What trains well in minutes on two cores: a softmax over directions, its negatives shared by a large batch, so that
# few steps see many of them; half of a vector's length, in powers, counts in ranking (docs/study.md).
DEFAULT_TRAINING: dict[str, Any] = {
    "loss": "cosine", "temperature": 0.1, "negatives": 512, "batch_size": 8192,
    "learning_rate": 1e-2, "epochs": 20, "patience": 3, "schedule": "cosine", "validation_users": 10_000,
}  # fmt: skip
DEFAULT_RANKING: dict[str, Any] = {"norm_power": 0.5}
