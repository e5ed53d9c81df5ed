# SPDX-License-Identifier: Apache-2.0
"""How good the rankings are: full ranking in blocks, then metrics over it."""

from legcf.evaluation.evaluate import (
    CHOOSING_SCORES,
    Ranker,
    accuracies,
    accuracy,
    evaluate,
    evaluate_per_user,
    judges,
    some_judges,
    worth,
)

__all__ = [
    "CHOOSING_SCORES",
    "Ranker",
    "accuracies",
    "accuracy",
    "evaluate",
    "evaluate_per_user",
    "judges",
    "some_judges",
    "worth",
]
