# SPDX-License-Identifier: Apache-2.0
"""Solve vectors of changed items in closed form, all else fixed: half steps of ALS, users first, then those items.

How much of what an item is learnt from is new decides whether it is solved again.

The half steps are taken in the space of the model's vectors, whatever those were made by. A changed item moves by the
difference between the half steps before and after its new pairs. A new item gets its half step, multiplied by the
linear map that takes the half steps of the trained items to their vectors best.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legcf.assignment.dictionary import find_balance
from legcf.core.arrays import FloatArray, Positions, inverse_power
from legcf.core.hill_climb import climb
from legcf.core.random_streams import fixed_generator
from legcf.data.interactions import Interactions
from legcf.factorisation.als import AlsSettings, confidences
from legcf.factorisation.half_step import solve_side
from legcf.factorisation.history_vectors import linear_map
from legcf.ranking.tables.pooling import Pooling
from legcf.ranking.tables.pooling_numba import pooled_users
from legcf.training.run_folder import TrainedModel

RESOLVE_SHARE = 0.1
"""From this share on an item is solved again. Chosen on validation pairs of movielens-small and ml-1m with a
tenth of the pairs new: 0.05 is no better, 0.2 loses up to five parts in a hundred (benchmarks/bench_update.py
--thresholds)."""
_FIRST_ALPHA, _LEAST_ALPHA, _MOST_ALPHA = 10.0, 1.25, 40.0
_STEPS = 8  # conjugate gradient steps: a new item starts from zero; other numbers were not recorded
_COMPARED_PAIRS = 200_000  # enough to tell one α from another; not measured


def new_share(train: Interactions, added: Interactions) -> NDArray[np.float64]:
    """Return for each item the share of Σ_u d_u⁻¹ · (items of u), over its users u, that comes from new pairs.

    A user who is new to the item counts with all of its items, another one with those that are new to it: an item whose
    neighbours have changed has changed as well. 1 for a new item, 0 for one without pairs.
    """
    per_item = inverse_power(train.user_degrees, 1.0)
    all_of_user = per_item * train.user_degrees
    new_of_user = per_item * added.user_degrees
    added_users = added.users()
    whole = _per_item(train, all_of_user[train.users()])
    by_known = _per_item(train, new_of_user[train.users()]) - _per_item(added, new_of_user[added_users])
    fresh = _per_item(added, all_of_user[added_users]) + by_known
    return np.divide(fresh, whole, out=np.zeros_like(whole), where=whole > 0)


def _per_item(pairs: Interactions, values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.bincount(pairs.items, values, minlength=pairs.num_items).astype(np.float64)


def trained_vectors(base: TrainedModel) -> tuple[FloatArray, Pooling]:
    """Return the vectors of items, and how users are pooled from them, before anything was rounded.

    From the layer itself, so that a model that was loaded gives the same bits as one that was just trained.
    """
    items = base.model.layer.item_rows()
    pooling = base.model.backbone.pooling()
    assert pooling is not None  # `refuse_others` has seen to it
    return items, pooling


def changed_vectors(
    items: FloatArray,
    trained_on: Interactions,
    train: Interactions,
    changed: Positions,
    pooling: Pooling,
    settings: AlsSettings,
) -> FloatArray:
    """Return vectors of the `changed` items; `items` has those of the trained ones, which are the first of `train`."""
    count = len(items)
    whole = np.zeros((train.num_items, items.shape[1]), dtype=np.float32)
    whole[:count] = items
    users = _pooled(pooling, trained_on, items)
    space = AlsSpace.of(users, items)
    before = space.half_step(users, items, trained_on, np.arange(count), settings)
    after = space.half_step(_pooled(pooling, train, whole), whole, train, changed, settings)
    across = _map(before, items)
    trained = changed < count
    vectors = whole[changed] + after @ across
    vectors[trained] -= before[changed[trained]] @ across
    return vectors


@dataclass(frozen=True, eq=False)
class AlsSpace:
    """Hold the way to the space of ALS and back: ALS weighs both sides by one λ, so there they are equally large.

    Found once for a trained model, so that half steps before and after differ by nothing but their pairs.
    """

    onto_users: FloatArray
    onto_items: FloatArray
    back: FloatArray

    @classmethod
    def of(cls, users: FloatArray, items: FloatArray) -> "AlsSpace":
        basis = find_balance(users, items, power=0.5)
        back = np.linalg.pinv(basis.onto_items.astype(np.float64)).astype(np.float32)
        return cls(basis.onto_users, basis.onto_items, back)

    def half_step(
        self, users: FloatArray, items: FloatArray, train: Interactions, solved_items: Positions, settings: AlsSettings
    ) -> FloatArray:
        """Return new vectors of `solved_items`.

        Users are solved from their items, starting with the vectors that they have, and then these items from them.
        """
        users = np.ascontiguousarray(users @ self.onto_users)
        there = np.ascontiguousarray(items @ self.onto_items)
        confidence = confidences(train, settings)
        solve_side(confidence, users, there, settings)
        solved = np.ascontiguousarray(there[solved_items])
        solve_side(confidence.T.tocsr()[solved_items], solved, users, settings)
        return solved @ self.back


def settings_for(settings: AlsSettings, items: FloatArray, train: Interactions, pooling: Pooling) -> AlsSettings:
    """Return the model's own settings; an α that is not set is the one that best restores its vectors."""
    settings = settings.model_copy(update={"gradient_steps": _STEPS})
    if settings.alpha is not None:
        return settings
    if train.num_pairs > _COMPARED_PAIRS:
        train = train.of_users(train.some_users(_COMPARED_PAIRS, fixed_generator()))
    everything = np.flatnonzero(train.item_degrees)
    users = _pooled(pooling, train, items)
    space = AlsSpace.of(users, items)

    def fit(alpha: float) -> float:
        trial = settings.model_copy(update={"alpha": alpha})
        half_steps = space.half_step(users, items, train, everything, trial)
        return -float(np.linalg.norm(half_steps @ _map(half_steps, items[everything]) - items[everything]))

    return settings.model_copy(update={"alpha": climb(fit, _FIRST_ALPHA, _LEAST_ALPHA, _MOST_ALPHA)})


def _pooled(pooling: Pooling, train: Interactions, items: FloatArray) -> FloatArray:
    """Return users pooled from these pairs, which also count the users of an item."""
    return pooled_users(Pooling(pooling.user_power, pooling.item_power, train.item_degrees), train, items)


def _map(rows: FloatArray, targets: FloatArray) -> FloatArray:
    return linear_map(rows, targets).astype(np.float32)
