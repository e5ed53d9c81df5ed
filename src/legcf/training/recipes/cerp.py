"""PEP's stages, with CERP's push away from null rows in the search."""

from typing import cast

import torch

from legcf.configuration import RunConfig
from legcf.embeddings.cerp import Cerp, CerpConfig
from legcf.training.loop import Session
from legcf.training.recipes.pruning import Retrain, Search
from legcf.training.sampler import Batch
from legcf.training.stage import Stage


def stages(config: RunConfig) -> list[Stage]:
    return [PushedSearch("search", config.method), Retrain("retrain", config.training.epochs)]


class PushedSearch(Search):
    """γ shrinks by a factor every epoch."""

    def before_step(self, session: Session, batch: Batch) -> None:
        super().before_step(session, batch)
        settings = cast(CerpConfig, self._settings)
        weight = settings.push * settings.push_factor**session.state.epoch
        cast(Cerp, session.model.layer).pushed = torch.from_numpy(batch.entities), weight

    def after_step(self, session: Session, batch: Batch) -> None:
        cast(Cerp, session.model.layer).pushed = None
