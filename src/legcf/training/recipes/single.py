"""One stage: train until validation stops rising."""

from typing import Any

from legcf.configuration import MethodConfig, TrainingConfig
from legcf.training.stage import Stage


def stages(settings: MethodConfig, training: TrainingConfig) -> list[Stage[Any]]:
    return [Stage("train", training.epochs)]
