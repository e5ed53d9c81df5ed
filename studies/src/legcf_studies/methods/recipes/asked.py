# SPDX-License-Identifier: Apache-2.0
"""Say what stages of several recipes ask of a run: how much time is left, what held-out pairs say, what is kept."""

from typing import Any

import numpy as np

from legcf.core.config import MethodConfig, TrainingConfig
from legcf.core.errors import UserError
from legcf.core.random_streams import Stream
from legcf.evaluation.evaluate import evaluate
from legcf.evaluation.metrics import parse_metric
from legcf.training.stage import Stage, TrainingView


def require_keep_last(settings: MethodConfig, training: TrainingConfig) -> None:
    """Refuse to keep an earlier epoch where the last stage makes of the weights what is stored."""
    if training.keep != "last":
        raise UserError(f"What {settings.name} stores is made after training: leave training.keep at last.")


def held_out_score(session: TrainingView[Any], eval_users: int | None = None) -> float:
    """Return the monitored metric on the held-out training pairs, over this many users (a seeded draw) or all."""
    assert session.held_out is not None
    users = np.flatnonzero(session.held_out.user_degrees > 0)
    if eval_users is not None and eval_users < len(users):
        # A stream of its own: how many users are evaluated must not change what is sampled for training.
        rng = Stream.HELD_OUT_USERS.generator(session.config.seed)
        users = np.sort(rng.choice(users, eval_users, replace=False))
    monitor = session.config.training.monitor
    name, k = parse_metric(monitor)
    return evaluate(session.ranking(), session.held_out, [k], users, [name])[monitor]


def seconds_left(session: TrainingView[Any], stage: Stage[Any], epoch: int, an_epoch: float) -> float:
    """Return how many seconds the stage still has after this epoch, which took `an_epoch` seconds."""
    needed = (stage.epochs - epoch) * an_epoch
    limit = session.config.training.max_minutes
    allowed = np.inf if limit is None else limit * 60 * stage.time_share - session.spent - an_epoch
    return float(max(min(needed, allowed), 0.0))


def time_is_up(session: TrainingView[Any]) -> bool:
    """Return whether no stage can train any more."""
    limit = session.config.training.max_minutes
    return limit is not None and session.spent > limit * 60
