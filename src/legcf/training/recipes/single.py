"""One stage: train until validation stops rising."""

from legcf.configuration import RunConfig
from legcf.training.stage import Stage


def stages(config: RunConfig) -> list[Stage]:
    return [Stage("train", config.training.epochs)]
