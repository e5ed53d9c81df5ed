"""Training settings that the presets of several methods share."""

from typing import Any

# The LEGCF paper's loop: 5 negatives a pair, about 2,048 triplets a step, the best epoch by NDCG@5.
PAPER_TRAINING: dict[str, Any] = {"batch_size": 410, "learning_rate": 1e-3, "l2": 5e-4, "monitor": "ndcg@5"}

# What trains well in minutes on two cores: negatives that a large batch shares, so that few steps see many of them.
DEFAULT_TRAINING: dict[str, Any] = {
    "loss": "softmax", "negatives": 2048, "batch_size": 8192, "learning_rate": 1e-2, "epochs": 40, "patience": 5,
    "schedule": "cosine",
}  # fmt: skip
