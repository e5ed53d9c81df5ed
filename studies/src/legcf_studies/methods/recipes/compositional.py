# SPDX-License-Identifier: Apache-2.0
"""Define CCE's stages: after each of some epochs all rows are clustered anew, chunk by chunk; then clusters stay."""

from typing import Any

import torch

from legcf.core.config import TrainingConfig
from legcf.core.random_streams import Stream
from legcf.training.stage import Stage, TrainingView
from legcf_studies.methods.clustered.cce import Cce, CceConfig
from legcf_studies.methods.composed.hashing import draw_constants
from legcf_studies.methods.recipes.quantising import k_means


def stages(settings: CceConfig, training: TrainingConfig) -> list[Stage[Cce]]:
    return [Recluster("cluster", settings.cluster_epochs), Stage("train", training.epochs)]


class Recluster(Stage[Cce]):
    """Make the clusters of the sums the first table, and draw new hashes for the second."""

    eligible_as_best = validated = False
    time_share = 0.5

    def after_epoch(self, session: TrainingView[Cce], epoch: int) -> dict[str, Any]:
        layer, rng = session.layer, Stream.CLUSTERING.generator(session.config.seed, epoch)
        rows = layer.table().detach()
        before = layer.assigned.clone()
        layer.hash_constants.copy_(draw_constants(layer.config.chunks, rng))
        for chunk, part in enumerate(torch.chunk(rows, layer.config.chunks, dim=1)):
            centres, nearest = k_means(part.contiguous(), layer.num_buckets, rng)
            layer.recluster(chunk, centres, nearest, part - centres[nearest])
        session.new_optimiser()
        return {"moved": float((layer.assigned != before).float().mean())}
