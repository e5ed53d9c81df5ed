# SPDX-License-Identifier: Apache-2.0
"""Define C2F-MetaEmbed's stages: those of LEGCF, then a finer codebook beside its own."""

from typing import Any

from legcf.core.config import TrainingConfig
from legcf.training.recipes import alternating
from legcf.training.sampler import TrainingBatch
from legcf.training.stage import Stage, TrainingView
from legcf_studies.methods.composed.c2f import C2f, C2fConfig


def stages(settings: C2fConfig, training: TrainingConfig) -> list[Stage[Any]]:
    return [*alternating.stages(settings, training), Refine("refine", training.epochs)]


class Refine(Stage[C2f]):
    """Learn both codebooks together, at a rate of their own, from the best coarse model."""

    def begin(self, session: TrainingView[C2f]) -> dict[str, Any]:
        session.layer.refine(session.dataset.train, session.rng)
        session.model.rebuild()
        session.new_optimiser()
        return self._fine_values(session)

    def before_step(self, session: TrainingView[C2f], batch: TrainingBatch) -> None:
        for group in session.optimiser.param_groups:
            group["lr"] *= session.layer.config.fine_rate

    def after_epoch(self, session: TrainingView[C2f], epoch: int) -> dict[str, Any]:
        return self._fine_values(session)

    @staticmethod
    def _fine_values(session: TrainingView[C2f]) -> dict[str, Any]:
        return {"fine_values": int((session.layer.fine_rows() != 0).sum())}
