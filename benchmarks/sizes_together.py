# SPDX-License-Identifier: Apache-2.0
"""Work that runs share which differ in the size of their file alone: first values, list settings and training.

They are most of the work. What is recalled is not reported again.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np

from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.training.session import RunSession
from legcf.training.shared_work import Work, without_size

_Result = TypeVar("_Result")


class SharedWork(Work):
    """Remember results of earlier runs for as long as it lives; tables are among them, so it takes memory."""

    def __init__(self) -> None:
        super().__init__()
        self._results: dict[tuple[int, str], tuple[object, Any]] = {}

    def forget(self, fitter: ListFitter | None) -> None:
        super().forget(None)  # lists of another size are made of the same

    def once(self, train: Interactions, key: str, make: Callable[[], _Result]) -> _Result:
        whole_key = id(train), key
        if whole_key not in self._results:
            self._results[whole_key] = train, make()  # kept with the pairs: their id must stay theirs
        result: _Result = self._results[whole_key][1]
        return result

    def fill(self, layer: Any, train: Interactions, rng: np.random.Generator) -> None:
        def make() -> tuple[dict[str, Any], Any]:
            super(SharedWork, self).fill(layer, train, rng)
            return _copied(layer), rng.bit_generator.state

        key = f"first values {layer.config.model_dump_json()} {rng.bit_generator.state}"
        values, state_after = self.once(train, key, make)
        layer.load_state_dict(values)
        rng.bit_generator.state = state_after

    def run(self, session: RunSession) -> None:
        def make() -> tuple[Any, dict[str, Any]]:
            session.run()
            return deepcopy(session.state), _copied(session.model)

        state, weights = self.once(session.dataset.train, without_size(session.config, "trained"), make)
        session.state = deepcopy(state)
        session.model.load_state_dict(weights)
        session.model.rebuild()


def _copied(part: Any) -> dict[str, Any]:
    return {name: deepcopy(values) for name, values in part.state_dict().items()}
