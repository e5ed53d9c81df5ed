# SPDX-License-Identifier: Apache-2.0
"""Name every random stream that follows from the seed of a run, or from no seed at all.

A stream is a generator of its own. What it draws depends on the seed and its number alone, so a stream that is used
more or less often, or after a resume, changes no draw of another. Whatever has a seed of its own (the split of the
data, synthetic data, a file's codes, the first values of a pruned table) makes its generator from that seed. What each
process of a distributed run draws for itself follows from the stream it shares (`distributed.local_generator`).
"""

from enum import Enum

import numpy as np


class Stream(Enum):
    """Name a stream by the numbers that follow the seed; streams of the same numbers draw the same."""

    RUN = ()
    """Edge folds, first values, batches, negatives, dropout and the searches of a recipe, in this order."""
    VALIDATION_USERS = ()
    """The users who are evaluated while a model trains."""
    FACTORISATION = ()
    """The factorisations among which a table is selected."""
    CLUSTERING = (0,)
    """CEL's gradients and moves, followed by the epoch."""
    HELD_OUT_PAIRS = (1,)
    """The training pairs that a search of sizes holds out."""
    HELD_OUT_USERS = (2,)
    """The users among them who are evaluated."""
    SELECTION_PAIRS = (3,)
    """The training pairs that are held out where a protocol has no validation."""
    SELECTION_SAMPLE = (4,)
    """The users of the sample on which settings are selected where pairs are very many."""

    def generator(self, seed: int, *more: int) -> np.random.Generator:
        """Return a new generator of this stream for a run of this seed."""
        return np.random.default_rng([seed, *self.value, *more])


def fixed_generator() -> np.random.Generator:
    """Return a new generator that is the same in every run, whatever its seed.

    It draws the users who are evaluated where all would take hours, the rotation of quantised tables, the folds of item
    features, the pairs by which an update finds α, and the start of the page's map.
    """
    return np.random.default_rng(0)
