# SPDX-License-Identifier: Apache-2.0
"""Find communities of the interaction graph by METIS: balanced, seeded, and cached by the graph's content."""

import hashlib
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.core.files import cache_folder, written_whole


def communities(adjacency: sp.csr_matrix, count: int, seed: int) -> NDArray[np.int32]:
    """Return the community of every node, 0 … count − 1, none empty.

    METIS may leave communities empty when there are many of them for the graph; then the largest ones give members
    away, with a warning.
    """
    nodes = adjacency.shape[0]
    if count == 1:
        return np.zeros(nodes, dtype=np.int32)
    pymetis = _metis()
    hasher = hashlib.sha256(f"metis {pymetis.version} {count} {seed} ".encode())
    for part in (adjacency.indptr, adjacency.indices):
        hasher.update(np.ascontiguousarray(part).data)
    cached = cache_folder() / "communities" / f"{hasher.hexdigest()[:32]}.npy"
    cached_parts = _read(cached, nodes)
    if cached_parts is not None:
        return cached_parts
    if count >= nodes:
        warnings.warn(f"{count} communities of {nodes} nodes: every node becomes its own.", stacklevel=2)
        return np.arange(nodes, dtype=np.int32)
    graph = pymetis.CSRAdjacency(adjacency.indptr, adjacency.indices)
    _, membership = pymetis.part_graph(count, graph, options=pymetis.Options(seed=seed))
    parts = np.asarray(membership, dtype=np.int32)
    empty = np.flatnonzero(np.bincount(parts, minlength=count) == 0)
    if empty.size:
        warnings.warn(
            f"METIS left {empty.size} of {count} communities empty; the largest ones were divided.", stacklevel=2
        )
        # each gets one node of a community that can spare it, the largest first
        by_size = np.argsort(-np.bincount(parts, minlength=count)[parts], kind="stable")
        spare = by_size[~np.isin(by_size, np.unique(parts, return_index=True)[1])]
        parts[spare[: len(empty)]] = empty
    with suppress(UserError), written_whole(cached) as temporary, open(temporary, "wb") as file:
        np.save(file, parts)
    return parts


def _metis() -> Any:
    """Import METIS where it is used: it is the one package of training that Windows has no wheel of."""
    try:
        import pymetis
    except ModuleNotFoundError as error:
        if sys.platform != "win32":
            raise
        raise UserError(
            "Communities of the graph need pymetis, which has no wheel for Windows: run `pip install pymetis` where"
            " there is a C++ compiler, or choose a start without communities, as the preset default has."
        ) from error
    return pymetis


def _read(cached: Path, nodes: int) -> NDArray[np.int32] | None:
    """Read what the cache holds, or None when it is not there or damaged: it can be computed again."""
    try:
        parts: NDArray[np.int32] = np.load(cached, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return parts if parts.shape == (nodes,) and parts.dtype == np.int32 else None
