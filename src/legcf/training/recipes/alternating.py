"""Algorithm 1 of LEGCF: pretrain with S fixed, then alternate between learning E_meta and updating S."""

import time
from typing import Any, cast

from legcf.arrays import FloatArray
from legcf.assignment.aggregate import aggregated
from legcf.assignment.assignment import relative_error
from legcf.assignment.careful import mixed, refitted
from legcf.assignment.solvers import SOLVERS
from legcf.configuration import RunConfig
from legcf.embeddings.legcf import Legcf, LegcfConfig
from legcf.training.loop import Session
from legcf.training.stage import Stage


def stages(config: RunConfig) -> list[Stage]:
    pretrain = Stage("pretrain", config.training.epochs)
    if config.method.update == "none":
        return [pretrain]
    pretrain.until = 0.5  # of a run that is limited in time: the updates must have their share
    return [pretrain, Alternate("alternate", config.training.epochs, config.method)]


class Alternate(Stage):
    """Every m epochs S is solved from H_full ≈ S · H_meta; graph and basis are then made anew."""

    def __init__(self, name: str, epochs: int, settings: LegcfConfig) -> None:
        super().__init__(name, epochs)
        self._settings = settings

    def before_epoch(self, session: Session) -> dict[str, Any]:
        return self._update(session) if self._settings.update_at == "start" else {}

    def after_epoch(self, session: Session) -> dict[str, Any]:
        return self._update(session) if self._settings.update_at == "end" else {}

    def _update(self, session: Session) -> dict[str, Any]:
        if session.state.epoch % self._settings.update_every:
            return {}
        started = time.perf_counter()
        layer = cast(Legcf, session.model.layer)
        widths = session.config.backbone.block_widths(layer.width)
        full, meta = (
            aggregated(cast(FloatArray, vectors), widths, self._settings.update_on)
            for vectors in (session.model.entity_vectors(), session.model.meta_vectors())
        )
        before = session.validation_score() if self._settings.update_gate else None
        previous = layer.assignment
        kept = (previous.indices.copy(), previous.weights.copy())
        cap = session.config.training.memory_cap_mb
        if self._settings.update_support == "kept":
            assignment = refitted(full, meta, previous, cap)
        else:
            assignment = SOLVERS[self._settings.update](full, meta, self._settings.t, cap)
        if self._settings.update_damping:
            assignment = mixed(previous, assignment, self._settings.update_damping)
        told = {"relative_error": relative_error(full, meta, assignment), **assignment.statistics()}
        layer.assignment = assignment
        session.model.rebuild()
        if before is not None and session.validation_score() < before:
            layer.assignment = type(assignment)(*kept, assignment.num_buckets)
            session.model.rebuild()
            told["refused"] = True
        return {"update": {**told, "seconds": time.perf_counter() - started}}
