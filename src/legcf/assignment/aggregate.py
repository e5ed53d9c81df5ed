"""What S is solved from where final vectors are the blocks of several layers side by side.

Where H_full = S · H_meta, also H_full G = S · H_meta G for any linear map G, as long as both sides go through the same
one. The paper asks for an "appropriate dimension aggregation" without naming it; the mean of the blocks is what
LightGCN's readout does. (Their sum would give the same S.)
"""

from collections.abc import Callable, Sequence

import numpy as np

from legcf.arrays import FloatArray

_AGGREGATIONS: dict[str, Callable[[list[FloatArray]], FloatArray]] = {
    "mean": lambda blocks: np.mean(blocks, axis=0, dtype=np.float32),
    "concat": lambda blocks: np.concatenate(blocks, axis=1),
    "first": lambda blocks: blocks[0],
    "last": lambda blocks: blocks[-1],
}


def aggregated(vectors: FloatArray, widths: Sequence[int], how: str) -> FloatArray:
    """H · G; a single block stays what it is."""
    blocks = np.split(vectors, np.cumsum(widths)[:-1], axis=1)
    return np.ascontiguousarray(_AGGREGATIONS[how](blocks)) if len(blocks) > 1 else vectors
