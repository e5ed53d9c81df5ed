# SPDX-License-Identifier: Apache-2.0
"""Share work between the parts of a run, and between runs on the same data (`benchmarks/sizes_together.py`).

Whatever a result depends on is in its key, the generator included. So a run that shares work ends with the numbers it
ends with on its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from legcf.core import threads
from legcf.core.arrays import FloatArray
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.averaged import averaged_items

if TYPE_CHECKING:
    from legcf.core.config import RunConfig
    from legcf.data.interactions import Interactions
    from legcf.ranking.item_lists.recipe import ListFitter
    from legcf.training.session import RunSession

Vectors = tuple[FloatArray, FloatArray]
"""Of users and of items."""
_Kept = TypeVar("_Kept", bound=tuple[FloatArray, ...])
_Result = TypeVar("_Result")

_KEPT_BYTES = 2**24  # of factorisations that are kept together: all of movielens-small's, one of Gowalla's


@dataclass(frozen=True, eq=False)
class _Factorised:
    """Keep a factorisation and the state of the generator after it."""

    key: str
    train: Interactions
    vectors: tuple[FloatArray, ...]
    state_after: Any

    @property
    def bytes(self) -> int:
        return sum(part.nbytes for part in self.vectors)


class Work:
    """Do the work of a run that shares nothing with other runs; its own parts share one factorisation."""

    def __init__(self) -> None:
        self._factorised: list[_Factorised] = []

    def factorise(
        self, train: Interactions, width: int, rng: np.random.Generator, settings: AlsSettings, quiet: bool = True
    ) -> Vectors:
        """Return what `als.factorise` returns, without doing again what was done last, or lately where it is small."""
        size = 4 * width * (train.num_users + train.num_items)
        key = f"{width} {settings.model_dump_json()}"
        return self._kept(train, key, rng, size, lambda: factorise(train, width, rng, settings, quiet))

    def averaged_items(
        self, train: Interactions, rng: np.random.Generator, settings: AlsSettings, count: int
    ) -> FloatArray:
        """Return what `averaged.averaged_items` returns, without doing again what was done last."""
        key, make = (
            f"{count} averaged {settings.model_dump_json()}",
            partial(averaged_items, train, rng, settings, count),
        )
        return self._kept(train, key, rng, _KEPT_BYTES, lambda: (make(),))[0]

    def _kept(
        self, train: Interactions, key: str, rng: np.random.Generator, size: int, make: Callable[[], _Kept]
    ) -> _Kept:
        key = f"{key} {rng.bit_generator.state}"
        known = next((one for one in self._factorised if one.key == key and one.train is train), None)
        if known is None:
            while self._factorised and size + sum(one.bytes for one in self._factorised) > _KEPT_BYTES:
                del self._factorised[0]  # first: large ones need not be in memory together
            vectors = make()
            known = _Factorised(key, train, vectors, rng.bit_generator.state)
            self._factorised.append(known)
        rng.bit_generator.state = known.state_after
        return cast(_Kept, known.vectors)

    def forget(self, fitter: ListFitter | None) -> None:
        """Free what only a selection needs."""
        self._factorised = []
        if fitter is not None:
            fitter.forget()
        threads.return_freed_memory()

    def once(self, train: Interactions, key: str, make: Callable[[], _Result]) -> _Result:
        """Return what `make` returns for these training pairs."""
        return make()

    def fill(self, layer: Any, train: Interactions, rng: np.random.Generator) -> None:
        """Give a layer its first values."""
        settings = layer.start_factorisation
        if settings is None or settings.alpha is None:
            layer.initialise(train, rng)
        elif layer.start_factorisations > 1:
            layer.initialise_items(self.averaged_items(train, rng, settings, layer.start_factorisations))
        else:
            layer.initialise_from(*self.factorise(train, layer.width, rng, settings, quiet=False), train, rng)

    def run(self, session: RunSession) -> None:
        """Train."""
        session.run()


def without_size(config: RunConfig, result: str) -> str:
    """Return a key for a result that does not depend on the size of the file."""
    content = config.to_json()
    del content["ranking"]["bytes"]
    return f"{result} {json.dumps(content, sort_keys=True)}"
