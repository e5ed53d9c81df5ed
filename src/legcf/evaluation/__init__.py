# SPDX-License-Identifier: Apache-2.0
"""How good the rankings are: full ranking in blocks, then metrics over it."""

from legcf.evaluation.evaluate import (
    CHOOSING_SCORES,
    Ranker,
    accuracies,
    accuracy,
    eval_users,
    evaluate,
    evaluate_per_user,
    sample_eval_users,
    selection_score,
)

__all__ = [
    "CHOOSING_SCORES",
    "Ranker",
    "accuracies",
    "accuracy",
    "eval_users",
    "evaluate",
    "evaluate_per_user",
    "sample_eval_users",
    "selection_score",
]
