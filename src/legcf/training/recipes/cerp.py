"""PEP's stages, with CERP's push away from null rows in the search."""

from typing import Any

import torch

from legcf.configuration import TrainingConfig
from legcf.embeddings.cerp import Cerp, CerpConfig
from legcf.training.recipes.pruning import RetrainPruned, SearchPruned
from legcf.training.sampler import TrainingBatch
from legcf.training.stage import Stage, TrainingView


def stages(settings: CerpConfig, training: TrainingConfig) -> list[Stage[Cerp]]:
    return [PushedSearch("search", settings.search_epochs), RetrainPruned("retrain", training.epochs)]


class PushedSearch(SearchPruned[Cerp]):
    """γ shrinks by a factor every epoch."""

    def before_epoch(self, session: TrainingView[Cerp], epoch: int) -> dict[str, Any]:
        settings = session.layer.config
        self._push = settings.push * settings.push_factor ** (epoch - 1)
        return super().before_epoch(session, epoch)

    def before_step(self, session: TrainingView[Cerp], batch: TrainingBatch) -> None:
        super().before_step(session, batch)
        session.layer.pushed = torch.from_numpy(batch.entities), self._push

    def after_step(self, session: TrainingView[Cerp], batch: TrainingBatch) -> None:
        session.layer.pushed = None
