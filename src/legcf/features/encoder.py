# SPDX-License-Identifier: Apache-2.0
"""Give items that nobody has, and users who have nothing, vectors from their features. Numpy only.

An encoder is all that a model file keeps of features.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, NamedArrays
from legcf.features.coder import FeatureCoder


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Map rows of features to vectors: vector = features · matrix + intercept."""

    matrix: FloatArray
    intercept: FloatArray

    def vectors(self, rows: Any) -> FloatArray:
        """Return the vectors of rows of features, sparse or not."""
        vectors: FloatArray = (rows @ self.matrix + self.intercept).astype(np.float32)
        return vectors

    def times(self, length: float) -> "FeatureMap":
        """Return the map to vectors so many times as long."""
        return FeatureMap(np.float32(length) * self.matrix, np.float32(length) * self.intercept)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a run's file."""
        return {"matrix": self.matrix, "start": self.intercept}

    @classmethod
    def restored(cls, arrays: NamedArrays) -> "FeatureMap":
        """Read what `arrays` gave."""
        return cls(np.asarray(arrays["matrix"], dtype=np.float32), np.asarray(arrays["start"], dtype=np.float32))


@dataclass(frozen=True, eq=False)
class FeatureEncoder:
    """Encode features of an item, or of a user, as its vector."""

    coder: FeatureCoder
    mapping: FeatureMap

    def aligned_to(self, before: FloatArray, after: FloatArray) -> "FeatureEncoder":
        """Return an encoder of items multiplied by the linear map that best takes their vectors `before` to `after`."""
        return self._multiplied(_across(before, after))

    def facing(self, before: FloatArray, after: FloatArray) -> "FeatureEncoder":
        """Return an encoder of users that scores items with vectors `after` as it scored them with those `before`."""
        return self._multiplied(_across(after, before).T)

    def vector(self, features: Mapping[str, Any]) -> FloatArray | None:
        """Return the vector for these features, by the names of the columns; None where nothing is said."""
        entries, values = self.coder.row(features)
        return values @ self.mapping.matrix[entries] + self.mapping.intercept if len(entries) else None

    def _multiplied(self, factor: NDArray[np.float64]) -> "FeatureEncoder":
        matrix, intercept = self.mapping.matrix @ factor, self.mapping.intercept @ factor
        return FeatureEncoder(self.coder, FeatureMap(matrix.astype(np.float32), intercept.astype(np.float32)))


def _across(before: FloatArray, after: FloatArray) -> NDArray[np.float64]:
    """Return the linear map that best takes rows `before` to rows `after`."""
    return np.linalg.lstsq(before.astype(np.float64), after.astype(np.float64), rcond=None)[0]
