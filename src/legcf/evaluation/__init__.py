# SPDX-License-Identifier: Apache-2.0
"""How good the rankings are: full ranking in blocks, then metrics over it."""

from legcf.evaluation.evaluate import accuracy, evaluate, evaluate_per_user, judges

__all__ = ["accuracy", "evaluate", "evaluate_per_user", "judges"]
