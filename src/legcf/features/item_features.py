# SPDX-License-Identifier: Apache-2.0
"""Hold the features of a model's items."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from legcf.core.arrays import FloatArray, LongArray, NamedArrays
from legcf.features.coder import FeatureCoder
from legcf.features.cold_items import ColdItemEncoder, FeatureMap


@dataclass(frozen=True, eq=False)
class ItemFeatures:
    """Hold a row of features for every item, and the map to vectors."""

    coder: FeatureCoder
    rows: sp.csr_matrix
    """A row for every item of the model; an empty one where it has no features."""
    mapping: FeatureMap | None = None
    """To vectors, once there are vectors to learn from."""

    @property
    def encoder(self) -> ColdItemEncoder | None:
        """Return what a model file needs to encode items that come later."""
        return None if self.mapping is None else ColdItemEncoder(self.coder, self.mapping)

    def renumbered(self, positions: LongArray, count: int) -> "ItemFeatures":
        """Return the features with the items at other positions, among `count`."""
        triplets = self.rows.tocoo()
        rows = sp.csr_matrix((triplets.data, (positions[triplets.row], triplets.col)), shape=(count, self.coder.width))
        return ItemFeatures(self.coder, rows, self.mapping)

    def overlaid(self, newer: "ItemFeatures") -> "ItemFeatures":
        """Return the features with the rows of `newer`, where it has any."""
        old = sp.diags((np.diff(newer.rows.indptr) == 0).astype(np.float32)) @ self.rows
        return ItemFeatures(self.coder, sp.csr_matrix(old + newer.rows), self.mapping)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a file; `facts` has the rest."""
        arrays = {"indptr": self.rows.indptr, "indices": self.rows.indices, "values": self.rows.data}
        if self.mapping is not None:
            arrays |= {"matrix": self.mapping.matrix, "start": self.mapping.intercept}
        return arrays

    def facts(self) -> dict[str, Any]:
        return {"coder": self.coder.to_json()}

    @classmethod
    def restored(cls, arrays: NamedArrays, facts: Mapping[str, Any], num_items: int) -> "ItemFeatures":
        coder = FeatureCoder.from_json(facts["coder"])
        parts = arrays["values"], arrays["indices"], arrays["indptr"]
        rows = sp.csr_matrix(parts, shape=(num_items, coder.width))
        rows.check_format()
        mapping = None
        if "matrix" in arrays:
            matrix: FloatArray = np.asarray(arrays["matrix"], dtype=np.float32)
            mapping = FeatureMap(matrix, np.asarray(arrays["start"], dtype=np.float32))
        return cls(coder, rows, mapping)
