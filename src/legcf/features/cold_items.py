# SPDX-License-Identifier: Apache-2.0
"""Give an item that nobody has yet a vector from its features: all that a model file keeps of them. Numpy only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.core.errors import UserError
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


@dataclass(frozen=True, eq=False)
class ColdItemEncoder:
    """Encode features of an item as its vector."""

    coder: FeatureCoder
    mapping: FeatureMap

    def aligned_to(self, before: FloatArray, after: FloatArray) -> "ColdItemEncoder":
        """Return the encoder multiplied by the linear map that best takes item vectors `before` to those `after`."""
        across = np.linalg.lstsq(before.astype(np.float64), after.astype(np.float64), rcond=None)[0]
        matrix, intercept = self.mapping.matrix @ across, self.mapping.intercept @ across
        return ColdItemEncoder(self.coder, FeatureMap(matrix.astype(np.float32), intercept.astype(np.float32)))

    def vector(self, features: Mapping[str, Any]) -> FloatArray:
        """Return the vector of an item with these features, by the names of the columns."""
        entries, values = self.coder.row(features)
        if not len(entries):
            raise UserError("Nothing is said of the item that the model could place it by: give it a feature.")
        return values @ self.mapping.matrix[entries] + self.mapping.intercept
