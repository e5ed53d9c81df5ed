# SPDX-License-Identifier: Apache-2.0
"""Define stages that end in codes.

LightRec: a full teacher, codes and codebooks that learn from it, codebooks with the codes fixed. LERG: a codebook that
learns in few bits. BiGeaR: a full teacher, signs that learn from pairs and from the teacher's first items.
"""

from typing import Any

import numpy as np
import torch

from legcf.core.config import TrainingConfig
from legcf.data.interactions import Interactions
from legcf.ranking.ranking import Ranking
from legcf.ranking.topk import rank
from legcf.training.sampler import TrainingBatch
from legcf.training.stage import Stage, TrainingView
from legcf_studies.methods.composed.lerg import Lerg, LergConfig
from legcf_studies.methods.composed.lightrec import LightRec, LightRecConfig
from legcf_studies.methods.recipes.asked import require_keep_last
from legcf_studies.methods.sized.bigear import Bigear, BigearConfig

_LLOYD_STEPS = 8


def stages(settings: LightRecConfig, training: TrainingConfig) -> list[Stage[LightRec]]:
    return [Teach("teach", settings.teacher_epochs), Code("code", settings.code_epochs), Tune("tune", training.epochs)]


def lerg_stages(settings: LergConfig, training: TrainingConfig) -> list[Stage[Lerg]]:
    require_keep_last(settings, training)
    return [Stage("train", training.epochs), Freeze("freeze", 0)]


def bigear_stages(settings: BigearConfig, training: TrainingConfig) -> list[Stage[Any]]:
    require_keep_last(settings, training)
    return [TeachLayers("teach", settings.teacher_epochs), Binarise("code", training.epochs), Freeze("freeze", 0)]


class TeachLayers(Stage[Bigear]):
    """Train the table with all its values."""

    eligible_as_best = False
    time_share = 0.5


class Binarise(Stage[Bigear]):
    """Train the signs of every layer, by pairs and by the items that the teacher has first."""

    _first: torch.Tensor | None = None
    """The teacher's first items, layers × users × R, once the stage has begun."""

    def begin(self, session: TrainingView[Bigear]) -> None:
        layer = session.layer
        nothing = Interactions.empty(layer.num_users, layer.num_items)
        count = min(layer.config.distil_items, layer.num_items)
        found = [rank(Ranking(*vectors, nothing), count)[0] for vectors in layer.layer_vectors()]
        self._first = torch.from_numpy(np.stack(found))
        layer.coded.fill_(True)
        session.new_optimiser()

    def before_step(self, session: TrainingView[Bigear], batch: TrainingBatch) -> None:
        layer = session.layer
        assert self._first is not None
        users = torch.from_numpy(batch.entities[batch.entities < layer.num_users]).long()
        most = layer.config.distil_users
        if len(users) > most:
            users = users[torch.from_numpy(session.rng.choice(len(users), most, replace=False))]
        layer.taught = users, self._first[:, users].long()

    def after_step(self, session: TrainingView[Bigear], batch: TrainingBatch) -> None:
        session.layer.taught = None

    def state(self) -> dict[str, torch.Tensor]:
        return {} if self._first is None else {"first": self._first}

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        self._first = state["first"]


class Freeze(Stage[Any]):
    """Keep the codes that the best epoch ended with; nothing is trained."""

    def begin(self, session: TrainingView[Any]) -> None:
        session.layer.freeze()
        session.model.rebuild()
        session.new_optimiser()


class Teach(Stage[LightRec]):
    """Train the full table, as it would be trained by itself."""

    eligible_as_best = False
    time_share = 0.5

    def trains(self, parameter: str) -> bool:
        return parameter.startswith("backbone.") or parameter.endswith("teacher")


class Code(Stage[LightRec]):
    """Train codebooks and similarities, from hard choices with the soft choice's gradient."""

    eligible_as_best = False
    time_share = 0.8

    def trains(self, parameter: str) -> bool:
        return not parameter.endswith("teacher")

    def begin(self, session: TrainingView[LightRec]) -> dict[str, Any]:
        layer = session.layer
        if layer.config.start == "kmeans":
            books = residual_codebooks(layer.teacher.detach(), layer.books, layer.config.codewords, session.rng)
            layer.codebook.data.copy_(books)
        layer.recode()
        session.new_optimiser()
        return _used(layer)

    def before_epoch(self, session: TrainingView[LightRec], epoch: int) -> dict[str, Any]:
        session.layer.coded, self._step = True, 0
        return {}

    def before_step(self, session: TrainingView[LightRec], batch: TrainingBatch) -> None:
        session.layer.recodes = self._step % session.layer.config.recode_every == 0
        self._step += 1

    def after_epoch(self, session: TrainingView[LightRec], epoch: int) -> dict[str, Any]:
        layer = session.layer
        layer.recodes = False
        layer.recode()
        return _used(layer)


class Tune(Stage[LightRec]):
    """Train with final codes: a sum of codewords is linear in the codebooks, so they train on the propagated basis."""

    def trains(self, parameter: str) -> bool:
        return not parameter.endswith(("teacher", "similarity"))

    def begin(self, session: TrainingView[LightRec]) -> dict[str, Any]:
        layer = session.layer
        layer.freeze()
        session.model.rebuild()
        session.new_optimiser()
        return _used(layer)


def residual_codebooks(vectors: torch.Tensor, books: int, codewords: int, rng: np.random.Generator) -> torch.Tensor:
    """Cluster the vectors by k-means, then what it leaves of them, and so on: one codebook above the other."""
    codebooks, residual = [], vectors.clone()
    for _ in range(books):
        words, nearest = k_means(residual, codewords, rng)
        residual = residual - words[nearest]
        codebooks.append(words)
    return torch.cat(codebooks)


def k_means(vectors: torch.Tensor, count: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the centres of so many clusters, found by Lloyd's steps from drawn vectors, and everyone's nearest."""
    first = rng.choice(len(vectors), count, replace=len(vectors) < count)
    centres = vectors[torch.from_numpy(first)].clone()
    nearest = _nearest(vectors, centres)
    for _ in range(_LLOYD_STEPS):
        sizes = torch.bincount(nearest, minlength=count)
        sums = torch.zeros_like(centres).index_add_(0, nearest, vectors)
        centres = torch.where(sizes[:, None] > 0, sums / sizes.clamp(min=1)[:, None], centres)
        nearest = _nearest(vectors, centres)
    return centres, nearest


def _nearest(vectors: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    return (2 * vectors @ words.T - words.square().sum(dim=1)).argmax(dim=1)


def _used(layer: LightRec) -> dict[str, Any]:
    """Count the codewords that someone has: few of them mean that the codebooks collapsed."""
    return {"codewords_used": len(torch.unique(layer.offsets(layer.codes)))}
