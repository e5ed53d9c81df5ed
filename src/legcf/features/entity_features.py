# SPDX-License-Identifier: Apache-2.0
"""Hold the features of a model's items, or of its users."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from legcf.core.arrays import LongArray, NamedArrays
from legcf.features.coder import FeatureCoder
from legcf.features.encoder import FeatureEncoder, FeatureMap


@dataclass(frozen=True, eq=False)
class EntityFeatures:
    """Hold a row of features for every item or user, and the map to vectors."""

    coder: FeatureCoder
    rows: sp.csr_matrix
    """A row for every item or user of the model; an empty one where it has no features."""
    mapping: FeatureMap | None = None
    """To vectors, once there are vectors to learn from."""

    @property
    def encoder(self) -> FeatureEncoder | None:
        """Return what a model file needs to encode items that come later."""
        return None if self.mapping is None else FeatureEncoder(self.coder, self.mapping)

    def renumbered(self, positions: LongArray, count: int) -> "EntityFeatures":
        """Return the features with the rows at other positions, among `count`."""
        triplets = self.rows.tocoo()
        rows = sp.csr_matrix((triplets.data, (positions[triplets.row], triplets.col)), shape=(count, self.coder.width))
        return EntityFeatures(self.coder, rows, self.mapping)

    def overlaid(self, newer: "EntityFeatures") -> "EntityFeatures":
        """Return the features with the rows of `newer`, where it has any."""
        old = sp.diags((np.diff(newer.rows.indptr) == 0).astype(np.float32)) @ self.rows
        return EntityFeatures(self.coder, sp.csr_matrix(old + newer.rows), self.mapping)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a file, which has the coder apart."""
        arrays = {"indptr": self.rows.indptr, "indices": self.rows.indices, "values": self.rows.data}
        if self.mapping is not None:
            arrays |= self.mapping.arrays()
        return arrays

    @classmethod
    def restored(cls, arrays: NamedArrays, coder: FeatureCoder, count: int) -> "EntityFeatures":
        parts = arrays["values"], arrays["indices"], arrays["indptr"]
        rows = sp.csr_matrix(parts, shape=(count, coder.width))
        rows.check_format()
        return cls(coder, rows, FeatureMap.restored(arrays) if "matrix" in arrays else None)
