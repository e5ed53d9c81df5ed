# SPDX-License-Identifier: Apache-2.0
"""Define Algorithm 1 of LEGCF: pretrain with S fixed, then alternate between learning E_meta and updating S."""

import time
from typing import Any

from legcf.assignment.assignment import relative_error
from legcf.assignment.solvers import SOLVERS
from legcf.assignment.update import aggregated, mixed, refitted
from legcf.core.config import TrainingConfig
from legcf.data.interactions import MANY_PAIRS
from legcf.embeddings.legcf_codes import CodedLayer, LegcfConfig
from legcf.training.stage import Stage, TrainingView


def stages(settings: LegcfConfig, training: TrainingConfig) -> list[Stage[CodedLayer]]:
    if settings.update == "none":
        warm: Stage[CodedLayer] = Stage("pretrain", training.epochs)
        warm.most_pairs = MANY_PAIRS  # the codebook is small, and starts from all pairs
        return [warm]
    # Half of a run that is limited in time: the updates must have their share.
    return [Stage("pretrain", training.epochs, time_share=0.5), Alternate("alternate", training.epochs)]


class Alternate(Stage[CodedLayer]):
    """Solve S from H_full ≈ S · H_meta every m epochs, and then make graph and basis anew.

    It is solved after epochs m, 2m, … (Alg. 1, line 8), or before epochs 1, m + 1, … as the release does.
    """

    @property
    def supports_distributed(self) -> bool:
        return True

    def before_epoch(self, session: TrainingView[CodedLayer], epoch: int) -> dict[str, Any]:
        return self._update_if_due(session, "start", epoch - 1)

    def after_epoch(self, session: TrainingView[CodedLayer], epoch: int) -> dict[str, Any]:
        return self._update_if_due(session, "end", epoch)

    def _update_if_due(self, session: TrainingView[CodedLayer], at: str, done: int) -> dict[str, Any]:
        """Update S if that is due here, at the start or the end of an epoch, when so many of them are done."""
        started = time.perf_counter()
        layer, settings = session.layer, session.layer.config
        if settings.update_at != at or done % settings.update_every:
            return {}
        widths = session.config.backbone.block_widths(layer.width)
        added = session.model.meta_vectors()
        assert added is not None, "an update needs meta-embeddings that are joined to the graph"
        sides = session.model.entity_vectors(), added
        full, meta = (aggregated(vectors, widths, settings.update_on) for vectors in sides)
        before = session.validation_score() if settings.update_gate else None
        previous = layer.assignment
        kept = (previous.indices.copy(), previous.weights.copy())
        cap = session.config.training.memory_cap_mb
        if settings.update_support == "kept":
            assignment = refitted(full, meta, previous, cap)
        else:
            assignment = SOLVERS[settings.update](full, meta, settings.t, cap)
        if settings.update_damping:
            assignment = mixed(previous, assignment, settings.update_damping)
        report = {"relative_error": relative_error(full, meta, assignment), **assignment.statistics()}
        layer.assignment = assignment
        session.model.rebuild()
        if before is not None and session.validation_score() < before:
            layer.assignment = type(assignment)(*kept, assignment.num_buckets)
            session.model.rebuild()
            report["refused"] = True
        return {"update": {**report, "seconds": time.perf_counter() - started}}
