# SPDX-License-Identifier: Apache-2.0
"""Measure rankings: rank all items in blocks, then compute metrics."""

from legcf.evaluation.evaluate import (
    CHOOSING_SCORES,
    Ranker,
    accuracies,
    accuracy,
    eval_users,
    evaluate,
    evaluate_per_user,
    sample_eval_users,
)
from legcf.evaluation.evaluator import Evaluator

__all__ = [
    "CHOOSING_SCORES",
    "Evaluator",
    "Ranker",
    "accuracies",
    "accuracy",
    "eval_users",
    "evaluate",
    "evaluate_per_user",
    "sample_eval_users",
]
