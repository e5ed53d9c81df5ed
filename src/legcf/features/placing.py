"""From what is said of an item to its vector: all that a model file keeps of features. Numpy only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from legcf.arrays import FloatArray
from legcf.errors import UserError
from legcf.features.coder import FeatureCoder


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """vector = features · matrix + start."""

    matrix: FloatArray
    start: FloatArray

    def vectors(self, rows: Any) -> FloatArray:
        """Of the rows of a matrix, sparse or not."""
        vectors: FloatArray = (rows @ self.matrix + self.start).astype(np.float32)
        return vectors


@dataclass(frozen=True, eq=False)
class Placing:
    coder: FeatureCoder
    mapping: FeatureMap

    def vector(self, said: Mapping[str, Any]) -> FloatArray:
        """Of an item of which this is said, by the names of the columns."""
        places, values = self.coder.row(said)
        if not len(places):
            raise UserError("Nothing is said of the item that the model could place it by: give it a feature.")
        vector: FloatArray = values @ self.mapping.matrix[places] + self.mapping.start
        return vector
