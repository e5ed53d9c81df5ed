"""What the recipes that search have in common: a judge that is not validation, and the time that is left."""

from typing import Any

import numpy as np

from legcf.evaluation import evaluate
from legcf.training.stage import Stage, TrainingView


def held_out_score(session: TrainingView[Any], judges: int | None = None) -> float:
    """The monitored metric on the training pairs that were held out, over this many users (a seeded draw) or all."""
    assert session.held_out is not None
    able = np.flatnonzero(session.held_out.user_degrees > 0)
    if judges is not None and judges < len(able):
        # A generator of its own: how many users judge must not change what is sampled for training.
        able = np.sort(np.random.default_rng([session.config.seed, 2]).choice(able, judges, replace=False))
    monitor = session.config.training.monitor
    name, _, k = monitor.partition("@")
    return evaluate(session.ranking(), session.held_out, [int(k)], able, [name])[monitor]


def seconds_left(session: TrainingView[Any], stage: Stage[Any], epoch: int, an_epoch: float) -> float:
    """How long the stage still has after this epoch, which took `an_epoch` seconds."""
    wanted = (stage.epochs - epoch) * an_epoch
    limit = session.config.training.max_minutes
    allowed = np.inf if limit is None else limit * 60 * stage.until - session.seconds - an_epoch
    return float(max(min(wanted, allowed), 0.0))


def time_is_up(session: TrainingView[Any]) -> bool:
    """Whether no stage can train any more."""
    limit = session.config.training.max_minutes
    return limit is not None and session.seconds > limit * 60
