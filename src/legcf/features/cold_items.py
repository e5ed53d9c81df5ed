# SPDX-License-Identifier: Apache-2.0
"""From what is said of an item to its vector: all that a model file keeps of features. Numpy only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.core.errors import UserError
from legcf.features.coder import FeatureCoder


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """vector = features · matrix + intercept."""

    matrix: FloatArray
    intercept: FloatArray

    def vectors(self, rows: Any) -> FloatArray:
        """Of the rows of a matrix, sparse or not."""
        vectors: FloatArray = (rows @ self.matrix + self.intercept).astype(np.float32)
        return vectors


@dataclass(frozen=True, eq=False)
class ColdItemEncoder:
    coder: FeatureCoder
    mapping: FeatureMap

    def moved(self, before: FloatArray, after: FloatArray) -> "ColdItemEncoder":
        """To where items stand `after` that stood `before`: the linear map that fits them best."""
        across = np.linalg.lstsq(before.astype(np.float64), after.astype(np.float64), rcond=None)[0]
        matrix, intercept = self.mapping.matrix @ across, self.mapping.intercept @ across
        return ColdItemEncoder(self.coder, FeatureMap(matrix.astype(np.float32), intercept.astype(np.float32)))

    def vector(self, said: Mapping[str, Any]) -> FloatArray:
        """Of an item of which this is said, by the names of the columns."""
        places, values = self.coder.row(said)
        if not len(places):
            raise UserError("Nothing is said of the item that the model could place it by: give it a feature.")
        vector: FloatArray = values @ self.mapping.matrix[places] + self.mapping.intercept
        return vector
