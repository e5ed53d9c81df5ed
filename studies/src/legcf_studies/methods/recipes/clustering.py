# SPDX-License-Identifier: Apache-2.0
"""Define CEL's stages: clusters split along their members' gradients and exchange members; then vectors train."""

from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, Positions
from legcf.core.config import TrainingConfig
from legcf.core.random_streams import Stream
from legcf.training.stage import Stage, TrainingView
from legcf_studies.methods.clustered.cel import Cel, CelConfig

_POWER_STEPS = 20  # of the power iteration: a split needs a direction, not its last digits
_BLOCK = 8192  # entities whose moves are weighed at a time


def stages(settings: CelConfig, training: TrainingConfig) -> list[Stage[Cel]]:
    return [Cluster("cluster", settings.cluster_epochs), Stage("train", training.epochs)]


class Cluster(Stage[Cel]):
    """Split the busiest clusters between epochs, and move entities to the cluster that promises least loss."""

    eligible_as_best = validated = False
    time_share = 0.5

    def after_epoch(self, session: TrainingView[Cel], epoch: int) -> dict[str, Any]:
        layer, settings = session.layer, session.layer.config
        moves = epoch % settings.reassign_every == 0
        grows = epoch % settings.split_every == 0 and len(layer.clusters) < layer.most_clusters
        if not (moves or grows):
            return {}
        rng = Stream.CLUSTERING.generator(session.config.seed, epoch)
        gradients = entity_gradients(session, settings.gradient_steps, rng)
        moved = 0
        if moves:
            before = layer.assigned.numpy().copy()
            movable = rng.random(len(before)) >= settings.stay_probability
            vectors = layer.clusters.detach().numpy()
            after = reassigned(before, vectors, gradients, layer.num_users, settings, movable)
            layer.assigned.copy_(torch.from_numpy(after))
            moved = int((after != before).sum())
        if grows:
            _split(session, layer, gradients)
        session.model.rebuild()
        return {"clusters": len(layer.clusters), "moved": moved}


def entity_gradients(session: TrainingView[Cel], steps: int, rng: np.random.Generator) -> FloatArray:
    """Return ∂L/∂E0 of every entity, through the graph, summed over some batches."""
    model = session.model
    vectors = torch.from_numpy(model.entity_vectors()).requires_grad_()
    for batch in islice(session.sampler.epoch(rng), steps):
        session.loss_of(vectors[torch.from_numpy(batch.entities)], batch).backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is not None
    gradients: FloatArray = model.input_gradient(vectors.grad).numpy()
    return gradients


def _split(session: TrainingView[Cel], layer: Cel, gradients: FloatArray) -> None:
    assigned, settings = layer.assigned.numpy(), layer.config
    train = session.dataset.train
    busy = np.concatenate([train.user_degrees, train.item_degrees]).astype(np.float64)
    left = layer.most_clusters - len(layer.clusters)
    parents = busiest(assigned, busy, min(left, settings.splits_at_once or len(layer.clusters)))
    moments = session.optimiser.state.get(layer.clusters, {})
    for name in ("exp_avg", "exp_avg_sq"):  # a new cluster goes on like its parent
        if name in moments:
            moments[name] = torch.cat([moments[name], moments[name][torch.from_numpy(parents)]])
    layer.split(parents, halved(assigned, gradients, parents))


def busiest(assigned: Positions, interactions: NDArray[np.float64], count: int) -> Positions:
    """Return the clusters with most interactions among those that have two members or more."""
    busy, sizes = np.bincount(assigned, interactions), np.bincount(assigned)
    order = np.argsort(-busy, kind="stable")
    return order[sizes[order] > 1][:count]


def halved(assigned: Positions, gradients: FloatArray, parents: Positions) -> Positions:
    """Give members on the negative side of their gradients' first principal direction a new cluster in each parent."""
    clusters = int(assigned.max()) + 1
    projections = first_component(assigned, gradients)
    leaves = projections < 0
    sizes, leaving = np.bincount(assigned, minlength=clusters), np.bincount(assigned, leaves, clusters)
    one_sided = (leaving == 0) | (leaving == sizes)
    order = np.lexsort((projections, assigned))
    rank = np.empty(len(assigned), dtype=np.int64)
    rank[order] = np.arange(len(assigned)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    leaves = np.where(one_sided[assigned], rank < sizes[assigned] // 2, leaves)  # the median parts them then
    child = np.full(clusters, -1)
    child[parents] = clusters + np.arange(len(parents))
    return np.where(leaves & (child[assigned] >= 0), child[assigned], assigned).astype(assigned.dtype)


def first_component(assigned: Positions, gradients: FloatArray) -> FloatArray:
    """Project every entity's gradient, centred in its cluster, on the cluster's first principal direction."""
    entities, clusters = len(assigned), int(assigned.max()) + 1
    members = sp.csr_matrix((np.ones(entities, np.float32), (assigned, np.arange(entities))), (clusters, entities))
    sizes = np.maximum(np.bincount(assigned, minlength=clusters), 1).astype(np.float32)
    centred = gradients - (members @ gradients / sizes[:, None])[assigned]
    centred /= max(float(np.abs(centred).max()), np.finfo(np.float32).tiny)  # only directions matter
    largest = np.lexsort(((centred**2).sum(axis=1), assigned))[np.cumsum(np.bincount(assigned, minlength=clusters)) - 1]
    directions = centred[largest]
    projections: FloatArray = np.zeros(entities, np.float32)
    for _ in range(_POWER_STEPS):
        length = np.linalg.norm(directions, axis=1, keepdims=True)
        directions = np.divide(directions, length, out=np.zeros_like(directions), where=length > 0)
        projections = (centred * directions[assigned]).sum(axis=1)
        directions = members @ (centred * projections[:, None])
    return projections


def reassigned(
    assigned: Positions,
    vectors: FloatArray,
    gradients: FloatArray,
    num_users: int,
    settings: CelConfig,
    movable: NDArray[np.bool_],
) -> Positions:
    """Move movable entities to where ⟨g, C_k − C_a⟩ + ½ρ‖C_k − C_a‖² is least, on their side; no cluster loses all."""
    apart = squared_distances(vectors)
    of_items = np.zeros(len(vectors), dtype=bool)
    of_items[assigned[num_users:]] = True
    apart[of_items[:, None] != of_items] = np.inf
    near = np.argsort(apart, axis=1, kind="stable")[:, : min(settings.nearest_clusters, len(vectors))]
    typical_gradient, typical_distance = _typical(np.linalg.norm(gradients, axis=1)), _typical(apart[apart < np.inf])
    steepness = settings.stiffness * typical_gradient / np.sqrt(typical_distance)
    after, costs = assigned.copy(), np.zeros(len(assigned), np.float32)
    for start in range(0, len(assigned), _BLOCK):
        block = slice(start, start + _BLOCK)
        present = assigned[block]
        steps = vectors[near[present]] - vectors[present][:, None]
        cost = np.einsum("nd,nkd->nk", gradients[block], steps)
        cost = cost + 0.5 * steepness * apart[present[:, None], near[present]]
        best = cost.argmin(axis=1)
        costs[block] = cost[np.arange(len(present)), best]
        wins = movable[block] & (costs[block] < 0)
        after[block] = np.where(wins, near[present, best], present)
    return _none_deserted(assigned, after, costs)


def squared_distances(vectors: FloatArray) -> FloatArray:
    norms = (vectors**2).sum(axis=1)
    apart: FloatArray = np.maximum(norms[:, None] + norms - 2 * vectors @ vectors.T, 0)
    np.fill_diagonal(apart, 0)
    return apart


def _none_deserted(before: Positions, after: Positions, costs: FloatArray) -> Positions:
    """Keep the entity that gains least in every cluster that all would leave."""
    staying = np.bincount(before[after == before], minlength=int(before.max()) + 1)
    members = np.flatnonzero(staying[before] == 0)
    order = members[np.lexsort((-costs[members], before[members]))]
    _, first = np.unique(before[order], return_index=True)
    after[order[first]] = before[order[first]]
    return after


def _typical(values: FloatArray) -> float:
    positive = values[values > 0]
    return float(np.median(positive)) if len(positive) else 1.0
