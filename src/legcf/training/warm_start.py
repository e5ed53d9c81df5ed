# SPDX-License-Identifier: Apache-2.0
"""Read vectors that somebody else has learnt, as a warm start: of a run, or of any file that `legcf compress` reads."""

from pathlib import Path

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.core.errors import UserError
from legcf.data.reading.vector_table import read_table
from legcf.training.run_folder import load_model


def read_vectors(path: Path, counts: tuple[int, int], width: int) -> tuple[FloatArray, FloatArray]:
    """Return user and item vectors in the dataset's order (ids sorted), with as many rows and `width` columns."""
    if path.is_dir():
        ranking = load_model(path).ranking
        users, items = ranking.users, ranking.items
    else:
        table = read_table(path, num_users=None)
        if table.users is None:
            raise UserError(f"{path} holds one matrix; a warm start needs the vectors of users and of items.")
        users, items = np.asarray(table.users, np.float32), np.asarray(table.items, np.float32)
    if (len(users), len(items)) != counts:
        raise UserError(
            f"{path} has {len(users):,} users and {len(items):,} items, the data {counts[0]:,} and {counts[1]:,}."
        )
    if users.shape[1] != width:
        raise UserError(
            f"{path} has vectors of {users.shape[1]}, the codebook of {width}: set method.dim to the former."
        )
    if not (np.isfinite(users).all() and np.isfinite(items).all()):
        raise UserError(f"{path} holds NaN or infinite values, so nothing can start from it.")
    return users, items
