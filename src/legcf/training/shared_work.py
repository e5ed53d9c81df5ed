# SPDX-License-Identifier: Apache-2.0
"""What runs on the same data have in common, worked out once: runs that differ in the size of their file alone share
first values, list settings and training, which are most of the work.

Whatever a result depends on is in its key, the generator included. So a run that shares work ends with the
numbers it ends with on its own; what is recalled is not reported again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

if TYPE_CHECKING:
    from legcf.core.config import RunConfig
    from legcf.data.interactions import Interactions
    from legcf.training.loop import Session

_Made = TypeVar("_Made")


class SharedWork:
    """Results of earlier runs, for as long as it lives; tables among them, so it takes room."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[object, Any]] = {}

    def once(self, train: Interactions, key: str, make: Callable[[], _Made]) -> _Made:
        """What `make` gives for these training pairs, or gave before."""
        place = id(train), key
        if place not in self._known:
            self._known[place] = train, make()  # kept with the pairs: their id must stay theirs
        made: _Made = self._known[place][1]
        return made


def once(work: SharedWork | None, train: Interactions, key: str, make: Callable[[], _Made]) -> _Made:
    """The same where a run may be alone."""
    return make() if work is None else work.once(train, key, make)


def without_size(config: RunConfig, made: str) -> str:
    """A key for what does not depend on the size of the file."""
    content = config.to_json()
    del content["ranking"]["bytes"]
    return f"{made} {json.dumps(content, sort_keys=True)}"


def first_values(
    work: SharedWork | None, module: torch.nn.Module, train: Interactions, rng: np.random.Generator, key: str,
    initialise: Callable[[], None],
) -> None:  # fmt: skip
    """Give a module its first values, or those that the same settings and draws gave it before."""
    if work is None:
        initialise()
        return

    def made() -> tuple[dict[str, torch.Tensor], Any]:
        initialise()
        return _copied(module), rng.bit_generator.state

    values, after = work.once(train, f"first values {key} {rng.bit_generator.state}", made)
    module.load_state_dict(values)
    rng.bit_generator.state = after


def run(work: SharedWork | None, session: Session) -> None:
    """Train, or go to where the same training ended before."""
    if work is None:
        session.run()
        return

    def made() -> tuple[Any, dict[str, torch.Tensor]]:
        session.run()
        return deepcopy(session.state), _copied(session.model)

    state, weights = work.once(session.dataset.train, without_size(session.config, "trained"), made)
    session.state = deepcopy(state)
    session.model.load_state_dict(weights)
    session.model.rebuild()


def _copied(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}
