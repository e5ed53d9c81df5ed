# SPDX-License-Identifier: Apache-2.0
"""Write ids and vectors for a vector search (FAISS, pgvector, Redis), and how it forms its query. Lists are left out.

q = n^−a Σ_j w_j h_j    over the n items j of a history; what is added to an item's scores is one more column of it,
                        and then q ends in a 1. Items are ranked by their inner product with q.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from legcf.core.arrays import FloatArray
from legcf.core.errors import UserError
from legcf.core.files import write_json, written_whole
from legcf.data.ids import IdMap
from legcf.export.options import ExportOptions
from legcf.ranking.answers import id_column
from legcf.ranking.ranking import Ranking

if TYPE_CHECKING:
    from legcf.training.run_folder import TrainedModel

_FILES = (".parquet", ".npz", ".legcf", ".html", ".htm")


def without_lists(ranking: Ranking) -> Ranking:
    """Return what a vector search that finds the exact best items ranks by."""
    if not ranking.items.any():
        raise UserError("This method ranks by lists and counts, and has no vectors to search: export it as coded.")
    return replace(ranking, lists=None)


def write_vectors(trained: "TrainedModel", folder: Path, options: ExportOptions) -> dict[str, int]:
    """Write items.parquet, users.parquet where users have vectors, vectors.npz and query.json; return their bytes."""
    if folder.suffix.lower() in _FILES:
        raise UserError(f"--format vectors writes a folder: give a name that does not end in {folder.suffix}.")
    ranking = trained.ranking
    pooling, bias = ranking.pooling, ranking.bias
    items = _table(trained.items, _with_column(ranking.items, bias))
    items = items.with_columns(popularity=pl.Series(ranking.popularity, dtype=pl.Int64))
    if options.titles and trained.titles is not None:
        items = items.with_columns(title=pl.Series(trained.titles, dtype=pl.String))
    arrays: dict[str, Any] = {"item_ids": items["id"].to_numpy(), "items": _with_column(ranking.items, bias)}
    writers: dict[str, Callable[[Path], Any]] = {}
    if pooling is not None:
        items = items.with_columns(history_weight=pl.Series(pooling.item_weights))
        arrays["history_weights"] = pooling.item_weights
    elif options.users != "none":
        ones = None if bias is None else np.ones(ranking.num_users, dtype=np.float32)
        users = _table(trained.users, _with_column(ranking.users, ones))
        arrays |= {"user_ids": users["id"].to_numpy(), "users": _with_column(ranking.users, ones)}
        writers["users.parquet"] = users.write_parquet
    writers |= {"items.parquet": items.write_parquet, "vectors.npz": lambda path: _write_npz(path, arrays)}
    query = {
        "metric": "inner product",
        "width": ranking.items.shape[1] + (bias is not None),
        "query": "vectors of users" if pooling is None else "sum of a history",
        "user_power": None if pooling is None else pooling.user_power,
        "ends_in_one": bias is not None,
    }
    for name, write in writers.items():
        with written_whole(folder / name) as temporary:
            write(temporary)
    write_json(folder / "query.json", query)
    return {name: (folder / name).stat().st_size for name in (*writers, "query.json")}


def _with_column(vectors: FloatArray, column: FloatArray | None) -> FloatArray:
    return vectors if column is None else np.column_stack([vectors, column]).astype(np.float32)


def _table(ids: IdMap, vectors: FloatArray) -> pl.DataFrame:
    names = id_column("id", ids.external(range(len(ids))), ids.is_text)
    return pl.DataFrame([names, pl.Series("vector", vectors, dtype=pl.Array(pl.Float32, vectors.shape[1]))])


def _write_npz(path: Path, arrays: dict[str, Any]) -> None:
    plain = {name: array.astype(str) if array.dtype == object else array for name, array in arrays.items()}
    with open(path, "wb") as file:
        np.savez(file, allow_pickle=False, **plain)
