# SPDX-License-Identifier: Apache-2.0
"""Search for the entries that deserve to stay, then train them anew from their first values."""

from typing import Any, TypeVar

import torch

from legcf.core.config import TrainingConfig
from legcf.embeddings.budget import solved
from legcf.training.sampler import TrainingBatch
from legcf.training.stage import Stage, TrainingView
from legcf_studies.methods.recipes.asked import require_keep_last
from legcf_studies.methods.sized.cerp import Cerp, CerpConfig
from legcf_studies.methods.sized.magprune import MagPrune, MagPruneConfig
from legcf_studies.methods.sized.pep import PrunedLayer, PruningConfig

Pruned = TypeVar("Pruned", bound=PrunedLayer[Any], contravariant=True)


def stages(settings: PruningConfig, training: TrainingConfig) -> list[Stage[PrunedLayer[Any]]]:
    return [SearchPruned("search", settings.search_epochs), RetrainPruned("retrain", training.epochs)]


def pushed_stages(settings: CerpConfig, training: TrainingConfig) -> list[Stage[Cerp]]:
    return [PushedSearch("search", settings.search_epochs), RetrainPruned("retrain", training.epochs)]


def magnitude_stages(settings: MagPruneConfig, training: TrainingConfig) -> list[Stage[MagPrune]]:
    require_keep_last(settings, training)
    return [Stage("train", training.epochs), PruneSmallest("prune", 0)]


class SearchPruned(Stage[Pruned]):
    """Train values and thresholds together, until few enough values are above their threshold.

    What raises the thresholds is weight decay inside Adam: their own gradient is next to nothing, and Adam makes full
    steps of the little there is. So thresholds rise by nearly Adam's step size, whatever the decay's size.
    """

    eligible_as_best = validated = False
    time_share = 0.5

    def finished(self, session: TrainingView[Pruned]) -> bool:
        return session.layer.num_params() <= session.layer.kept

    def before_epoch(self, session: TrainingView[Pruned], epoch: int) -> dict[str, Any]:
        thresholds, settings = session.layer.pruned.thresholds, session.layer.config
        for group in session.optimiser.param_groups:
            own = group["params"][0] is thresholds
            group["weight_decay"] = settings.threshold_decay if own else settings.decay
        return {}

    def before_step(self, session: TrainingView[Pruned], batch: TrainingBatch) -> None:
        """Raise thresholds at a constant rate; the table has a rate of its own, on the loop's schedule."""
        thresholds, settings = session.layer.pruned.thresholds, session.layer.config
        rate = session.config.training.learning_rate
        if settings.threshold_epochs is not None:
            way = settings.threshold_final - settings.threshold_initial
            rate = way / (settings.threshold_epochs * session.sampler.steps_per_epoch)
        for group in session.optimiser.param_groups:
            if group["params"][0] is thresholds:
                group["lr"] = rate
            elif settings.search_rate is not None:
                group["lr"] *= settings.search_rate / session.config.training.learning_rate

    def after_epoch(self, session: TrainingView[Pruned], epoch: int) -> dict[str, Any]:
        return {"not_zero": session.layer.num_params()}


class PushedSearch(SearchPruned[Cerp]):
    """Add CERP's push away from null rows; γ shrinks by a factor every epoch."""

    def before_epoch(self, session: TrainingView[Cerp], epoch: int) -> dict[str, Any]:
        settings = session.layer.config
        self._push = settings.push * settings.push_factor ** (epoch - 1)
        return super().before_epoch(session, epoch)

    def before_step(self, session: TrainingView[Cerp], batch: TrainingBatch) -> None:
        super().before_step(session, batch)
        session.layer.pushed = torch.from_numpy(batch.entities), self._push

    def after_step(self, session: TrainingView[Cerp], batch: TrainingBatch) -> None:
        session.layer.pushed = None


class RetrainPruned(Stage[PrunedLayer[Any]]):
    """Train the surviving entries from the values they had at the start, without thresholds."""

    def begin(self, session: TrainingView[PrunedLayer[Any]]) -> dict[str, Any]:
        layer = session.layer
        reached = layer.num_params()
        mask = layer.pruned.survivors(layer.kept)
        layer.pruned.rewind(mask)
        session.new_optimiser()
        return {
            "kept": layer.num_params(),
            "sparsity": 1 - layer.num_params() / mask.numel(),
            "rows_without_values": int((layer.pruned.lengths == 0).sum()),
            "target_reached": reached <= layer.kept,
        }


class PruneSmallest(Stage[MagPrune]):
    """Drop the smallest values; validation chooses how many every row keeps (doublings, the most, and none)."""

    def begin(self, session: TrainingView[MagPrune]) -> dict[str, Any]:
        layer, least = session.layer, session.layer.config.row_entries
        if least is None:
            most = min(solved(layer.config.max_entries) // layer.num_entities, layer.config.dim)
            candidates = sorted({0, most, *(2**power for power in range(most.bit_length()))})
            least = max(candidates, key=lambda count: self._score(session, count))
        layer.prune(layer.survivors(least))
        session.model.rebuild()
        session.new_optimiser()
        return {"row_entries": least, "kept": layer.num_params()}

    @staticmethod
    def _score(session: TrainingView[MagPrune], row_entries: int) -> float:
        """Return the validation score of the pruned table, which is then as it was."""
        weight = session.layer.weight
        whole = weight.data
        weight.data = whole * session.layer.survivors(row_entries)
        score = session.validation_score()
        weight.data = whole
        return score
