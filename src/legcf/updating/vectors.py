"""Vectors of changed items in closed form, everything else fixed: half steps of ALS, users first, then those items.

The half steps are taken in the space of the model's own vectors, whatever those were made by. What they give for the
pairs of the training tells how the two differ: a changed item moves by the difference between two half steps, before
and after, and a new item stands where a linear map takes its half step, the map that fits the trained items best.
"""

from typing import Any

import numpy as np
import torch

from legcf.arrays import FloatArray, Positions
from legcf.assignment.dictionary import find_balance
from legcf.configuration import MethodConfig
from legcf.data.interactions import Interactions
from legcf.factorisation.als import AlsSettings, confidences, solve_side
from legcf.ranking.pooling import Pooling
from legcf.trained_model import TrainedModel

_ALPHAS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
_STEPS = 8  # conjugate gradient steps: a new item starts from nothing
_RIDGE = 1e-3


def trained_vectors(base: TrainedModel) -> tuple[FloatArray, FloatArray, Pooling]:
    """Users, items and how users are pooled, as the model was trained and before anything was rounded.

    From the layer itself, so that a model that was loaded gives the same bits as one that was just trained.
    """
    layer, histories = base.model.layer, base.ranking.histories
    with torch.no_grad():
        items: FloatArray = layer.rows(torch.arange(layer.num_users, layer.num_entities)).numpy()
    pooling = base.model.backbone.pooling()
    assert pooling is not None  # `refuse_others` has seen to it
    return pooling.vectors(histories, items.__getitem__, items.shape[1]), items, pooling


def changed_vectors(
    items: FloatArray,
    trained_on: Interactions,
    train: Interactions,
    changed: Positions,
    pooling: Pooling,
    settings: AlsSettings,
) -> FloatArray:
    """Of the `changed` items; `items` are the vectors of those that were trained on, the first ones of `train`."""
    count = len(items)
    whole = np.zeros((train.num_items, items.shape[1]), dtype=np.float32)
    whole[:count] = items
    before = half_step(whole, trained_on.widened(train.num_users, train.num_items), np.arange(count), pooling, settings)
    after = half_step(whole, train, changed, pooling, settings)
    across = _linear_map(before, items)
    known = changed < count
    vectors = whole[changed] + after @ across
    vectors[known] -= before[changed[known]] @ across
    return vectors


def half_step(
    items: FloatArray, train: Interactions, wanted: Positions, pooling: Pooling, settings: AlsSettings
) -> FloatArray:
    """Vectors of the wanted items: users are solved from their items, and then these from their users.

    ALS weighs both sides by one λ, so its space is the one where they are equally large; we go there and back.
    """
    pooled = Pooling(pooling.user_power, pooling.item_power, train.item_degrees)
    users = pooled.vectors(train, items.__getitem__, items.shape[1])
    basis = find_balance(users, items, power=0.5)
    users, there = np.ascontiguousarray(users @ basis.onto_users), np.ascontiguousarray(items @ basis.onto_items)
    confidence = confidences(train, settings)
    solve_side(confidence, users, there, settings)
    solved = np.ascontiguousarray(there[wanted])
    solve_side(confidence.T.tocsr()[wanted], solved, users, settings)
    back: FloatArray = (solved @ np.linalg.pinv(basis.onto_items.astype(np.float64))).astype(np.float32)
    return back


def settings_for(method: MethodConfig, items: FloatArray, train: Interactions, pooling: Pooling) -> AlsSettings:
    """Those of the model's own factorisation; where α is not told, the one that gives its vectors back best."""
    told: Any = getattr(method, "als", AlsSettings())
    settings: AlsSettings = told.model_copy(update={"gradient_steps": _STEPS})
    if settings.alpha is not None:
        return settings
    everything = np.arange(len(items))

    def missed(alpha: float) -> float:
        trial = settings.model_copy(update={"alpha": alpha})
        found = half_step(items, train, everything, pooling, trial)
        return float(np.linalg.norm(found @ _linear_map(found, items) - items))

    return settings.model_copy(update={"alpha": min(_ALPHAS, key=missed)})


def _linear_map(rows: FloatArray, wanted: FloatArray) -> FloatArray:
    """W with rows · W ≈ wanted."""
    gram = rows.T.astype(np.float64) @ rows
    ridge = _RIDGE * np.trace(gram) / len(gram) or 1.0
    fitted: FloatArray = np.linalg.solve(gram + ridge * np.eye(len(gram)), rows.T.astype(np.float64) @ wanted).astype(
        np.float32
    )
    return fitted
