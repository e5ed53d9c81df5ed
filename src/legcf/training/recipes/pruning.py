"""Search for the entries that deserve to stay, then train them anew from their first values."""

from typing import Any, cast

from legcf.configuration import RunConfig
from legcf.embeddings.pruned import PrunedLayer, PruningConfig
from legcf.training.loop import Session
from legcf.training.sampler import Batch
from legcf.training.stage import Stage


def stages(config: RunConfig) -> list[Stage]:
    return [Search("search", config.method), Retrain("retrain", config.training.epochs)]


def pruned_layer(session: Session) -> PrunedLayer:
    return cast(PrunedLayer, session.model.layer)


class Search(Stage):
    """Values and thresholds together, until few enough values are above their threshold.

    What raises the thresholds is weight decay inside Adam: their own gradient is next to nothing, and Adam makes full
    steps of the little there is. So thresholds rise by nearly Adam's step size, whatever the decay's size.
    """

    counts = validated = False
    until = 0.5

    def __init__(self, name: str, settings: PruningConfig) -> None:
        super().__init__(name, settings.search_epochs)
        self._settings = settings

    def finished(self, session: Session) -> bool:
        layer = pruned_layer(session)
        return layer.num_params() <= layer.kept

    def before_epoch(self, session: Session) -> dict[str, Any]:
        thresholds = pruned_layer(session).pruned.thresholds
        for group in session.optimiser.param_groups:
            own = group["params"][0] is thresholds
            group["weight_decay"] = self._settings.threshold_decay if own else self._settings.decay
        return {}

    def before_step(self, session: Session, batch: Batch) -> None:
        """Thresholds rise at a constant rate; the table has a rate of its own, on the loop's schedule."""
        thresholds, training = pruned_layer(session).pruned.thresholds, session.config.training
        for group in session.optimiser.param_groups:
            if group["params"][0] is thresholds:
                group["lr"] = self._threshold_rate(session)
            elif self._settings.search_rate is not None:
                group["lr"] *= self._settings.search_rate / training.learning_rate

    def after_epoch(self, session: Session) -> dict[str, Any]:
        return {"not_zero": pruned_layer(session).num_params()}

    def _threshold_rate(self, session: Session) -> float:
        settings = self._settings
        if settings.threshold_epochs is None:
            return session.config.training.learning_rate
        way = settings.threshold_final - settings.threshold_initial
        return way / (settings.threshold_epochs * session.sampler.steps_per_epoch)


class Retrain(Stage):
    """The surviving entries from the values they had at the start, without thresholds."""

    def begin(self, session: Session) -> dict[str, Any]:
        layer = pruned_layer(session)
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
