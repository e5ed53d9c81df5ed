# SPDX-License-Identifier: Apache-2.0
"""Average several factorisations of the same pairs into one table of items: what they agree on stays.

Where pairs are few, a factorisation owes much to its random start and to its α. Item tables side by side rank by the
mean of their scores, and the widest directions of all of them are a table again (docs/study.md, section 13).
"""

from collections.abc import Iterator

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.data.interactions import Interactions
from legcf.factorisation.als import AlsSettings, factorise, with_alpha
from legcf.factorisation.history_vectors import history_items, widest_first

_COLUMNS, _LEAST_ITEMS_PER_COLUMN = 128, 4  # of a factorisation; four of 64 columns lose 0.5 to 1 % on four data sets
_SPREAD = 4.0  # the largest α over the smallest: on LastFM 2 gains half as much; larger ones were not measured


def averaged_items(train: Interactions, rng: np.random.Generator, settings: AlsSettings, count: int) -> FloatArray:
    """Return item vectors whose products are the mean of those of `count` factorisations, the widest directions first.

    Each has a random start and an α of its own, from half to twice that of the settings, with their λ / α.
    """
    columns = max(1, min(_COLUMNS, train.num_items // _LEAST_ITEMS_PER_COLUMN))
    if settings.alpha is None:
        settings = with_alpha(train, columns, rng, settings)
    tables = [history_items(train, *factorise(train, columns, rng, one)) for one in _around(settings, count)]
    return widest_first(np.concatenate(tables, axis=1) * np.float32(count**-0.5))


def _around(settings: AlsSettings, count: int) -> Iterator[AlsSettings]:
    assert settings.alpha is not None
    for factor in np.geomspace(_SPREAD**-0.5, _SPREAD**0.5, count).tolist():
        update = {"alpha": settings.alpha * factor, "regularisation": settings.regularisation * factor}
        yield settings.model_copy(update=update)
