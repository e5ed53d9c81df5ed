# SPDX-License-Identifier: Apache-2.0
"""What stands around the loss of a batch: users that do not know of the pair in question, and the penalty of Eq. 4."""

from dataclasses import replace

import numpy as np
import torch

from legcf.core.errors import UserError
from legcf.training.model import GraphModel
from legcf.training.sampler import TrainingBatch


def left_out(
    model: GraphModel, vectors: torch.Tensor, entities: torch.Tensor, batch: TrainingBatch
) -> tuple[torch.Tensor, TrainingBatch]:
    """Give every pair a user of its own that does not know of the pair."""
    users, positives = torch.from_numpy(batch.users), torch.from_numpy(batch.positives)
    own = model.backbone.without_pairs(vectors, entities, users, positives)
    if own is None:
        raise UserError(
            f"Backbone {model.backbone.config.name} cannot do training.exclude_target; use training.edge_folds instead."
        )
    places = np.arange(len(vectors), len(vectors) + batch.num_pairs)
    return torch.cat([vectors, own]), replace(batch, users=places)


def squared_norms(
    model: GraphModel,
    of: str,
    batch: TrainingBatch,
    entities: torch.Tensor,
    encoded: torch.Tensor,
    travelled: torch.Tensor | None,
) -> torch.Tensor:
    """‖Θ‖² of Eq. 4: over the layer's parameters, or per triplet over its input rows (those that `travelled`, if any
    did) or its final vectors."""
    if of == "parameters":
        return torch.stack([parameter.square().sum() for parameter in model.layer.parameters()]).sum()
    each = batch.negatives.shape[1] if batch.negatives.ndim == 2 else 1
    counts = each * (
        np.bincount(batch.users, minlength=len(entities)) + np.bincount(batch.positives, minlength=len(entities))
    ) + np.bincount(batch.negatives.ravel(), minlength=len(entities))
    if of == "final":
        penalised = encoded if model.layer.item_bias is None else encoded[:, :-1]
    else:
        penalised = model.layer.rows(entities) if travelled is None else travelled.index_select(0, entities)
    norms = penalised.square().sum(dim=1)
    return norms @ torch.from_numpy(counts.astype(np.float32)) / (batch.num_pairs * each)
