# SPDX-License-Identifier: Apache-2.0
"""The scorer as an ONNX graph of standard operators: users in, the best k items and their scores out.

Users are positions (`users`, where the file stores their codes) or, where a user is nothing but its history, positions
of items (`history`, a row per user, −1 behind the last). Seen items are not left out: ask for more and filter.
"""

from pathlib import Path
from typing import Any

import numpy as np

from legcf.core.errors import MissingExtra, UserError
from legcf.core.files import written_whole
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.tables.embedding_table import CodebookTable, EmbeddingTable
from legcf.ranking.tables.pooling import Pooling

_OPSET = 18
Steps = list[tuple[str, list[str], list[str], dict[str, Any]]]
"""Kind, inputs, outputs and options of every node."""


def write_onnx(model: ServedModel, path: Path) -> int:
    """Inputs `users` or `items` (int64) and `k` (int64, one number); outputs `items` and `scores` (batch × k)."""
    try:
        from onnx import TensorProto, checker, helper, numpy_helper, save_model
    except ImportError as error:
        raise MissingExtra("The ONNX export", "onnx") from error
    items = _as_codes(model.item_rows)
    constants: dict[str, Any] = {
        "codebook": items.codebook,
        "codebook_across": np.ascontiguousarray(items.codebook.T),
        "item_columns": items.columns.astype(np.int64),
        "item_weights": items.weights,
        "last_axis": np.array([2], dtype=np.int64),
        "item_bias": np.zeros(len(items), np.float32) if model.item_bias is None else model.item_bias,
    }
    if model.pooling is None:
        asked, steps = ("users", ["batch"]), _known_users(model, constants)
    else:
        asked, steps = ("history", ["batch", "length"]), _pooled_users(model.pooling, items, constants)
    steps += [
        ("MatMul", ["vectors", "codebook_across"], ["projected"], {}),  # g = H_meta h_u
        ("Gather", ["projected", "item_columns"], ["terms"], {"axis": 1}),
        ("Mul", ["terms", "item_weights"], ["weighted_terms"], {}),
        ("ReduceSum", ["weighted_terms", "last_axis"], ["products"], {"keepdims": 0}),
        ("Add", ["products", "item_bias"], ["by_vectors"], {}),
    ]
    if model.lists is not None:
        steps += _listed(model.lists, constants)
    else:
        steps += [("Identity", ["by_vectors"], ["all_scores"], {})]
    steps += [("TopK", ["all_scores", "k"], ["scores", "items"], {"axis": -1})]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, outputs, **options) for kind, inputs, outputs, options in steps],
        "legcf scorer",
        [
            helper.make_tensor_value_info(asked[0], TensorProto.INT64, asked[1]),
            helper.make_tensor_value_info("k", TensorProto.INT64, [1]),
        ],
        [
            helper.make_tensor_value_info("items", TensorProto.INT64, ["batch", "k"]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", "k"]),
        ],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="legcf")
    made.ir_version = 9  # read by every onnxruntime since 1.17
    checker.check_model(made)
    with written_whole(path) as temporary:
        save_model(made, str(temporary))
    return path.stat().st_size


def _as_codes(rows: EmbeddingTable) -> CodebookTable:
    """A table is a codebook that has a row for each item."""
    if isinstance(rows, CodebookTable):
        return rows
    each = np.arange(len(rows), dtype=np.uint32)[:, None]
    return CodebookTable(each, np.ones((len(rows), 1), dtype=np.float32), rows.vectors(slice(None)))


def _known_users(model: ServedModel, constants: dict[str, Any]) -> Steps:
    """`vectors` of users by their codes."""
    users = model.user_rows
    if not isinstance(users, CodebookTable):
        raise UserError("The ONNX scorer is made of codes of users and items: export it with --users coded.")
    constants |= {
        "user_columns": users.columns.astype(np.int64),
        "user_weights": users.weights[..., None],
        "terms_of_user": np.array([1], dtype=np.int64),
    }
    return [
        ("Gather", ["user_columns", "users"], ["columns"], {}),
        ("Gather", ["user_weights", "users"], ["weights"], {}),
        ("Gather", ["codebook", "columns"], ["atoms"], {}),
        ("Mul", ["atoms", "weights"], ["weighted_atoms"], {}),
        ("ReduceSum", ["weighted_atoms", "terms_of_user"], ["vectors"], {"keepdims": 0}),
    ]


def _pooled_users(pooling: Pooling, rows: CodebookTable, constants: dict[str, Any]) -> Steps:
    """`vectors` as weighted sums over `history`; what stands at −1 weighs nothing."""
    # One more item behind the last, for −1 to mean: it has a code like others, and no weight.
    constants |= {
        "own_columns": np.append(constants["item_columns"], constants["item_columns"][:1], axis=0),
        "own_weights": np.append(rows.weights, np.zeros_like(rows.weights[:1]), axis=0)[..., None],
        "pooled_weights": np.append(pooling.item_weights, np.float32(0)).astype(np.float32)[:, None],
        "user_power": np.array(-pooling.user_power, dtype=np.float32),
        "one": np.array(1, dtype=np.float32),
        "zero": np.array(0, dtype=np.int64),
        "along_codes": np.array([2], dtype=np.int64),
        "along_history": np.array([1], dtype=np.int64),
    }
    return [
        ("Gather", ["own_columns", "history"], ["columns"], {}),
        ("Gather", ["own_weights", "history"], ["weights"], {}),
        ("Gather", ["codebook", "columns"], ["atoms"], {}),
        ("Mul", ["atoms", "weights"], ["weighted_atoms"], {}),
        ("ReduceSum", ["weighted_atoms", "along_codes"], ["rows"], {"keepdims": 0}),
        ("Gather", ["pooled_weights", "history"], ["shares"], {}),
        ("Mul", ["rows", "shares"], ["shared_rows"], {}),
        ("ReduceSum", ["shared_rows", "along_history"], ["sums"], {"keepdims": 0}),
        ("GreaterOrEqual", ["history", "zero"], ["is_item"], {}),
        ("Cast", ["is_item"], ["is_one"], {"to": 1}),
        ("ReduceSum", ["is_one", "along_history"], ["found"], {"keepdims": 1}),
        ("Max", ["found", "one"], ["count"], {}),
        ("Pow", ["count", "user_power"], ["own"], {}),
        ("Mul", ["sums", "own"], ["vectors"], {}),
    ]


def _listed(lists: ItemLists, constants: dict[str, Any]) -> Steps:
    """`by_vectors` with what the lists of `history` add, scattered to the items they name."""
    counts, num_items = lists.pairs.row_lengths, lists.pairs.num_items
    width = int(counts.max(initial=1))
    named = np.zeros((num_items + 1, width), dtype=np.int64)  # the last row is empty, for −1 to mean
    weights = np.zeros((num_items + 1, width), dtype=np.float32)
    within = np.arange(lists.num_entries) - np.repeat(lists.pairs.indptr[:-1], counts)
    named[lists.pairs.rows(), within], weights[lists.pairs.rows(), within] = lists.pairs.items, lists.weights
    constants |= {
        "list_items": named,
        "list_weights": weights,
        "list_power": np.array(-lists.user_power, dtype=np.float32),
        "flat": np.array([0, -1], dtype=np.int64),
    }
    return [
        ("Gather", ["list_items", "history"], ["named"], {}),
        ("Gather", ["list_weights", "history"], ["said"], {}),
        ("Pow", ["count", "list_power"], ["list_own"], {}),
        ("Reshape", ["named", "flat"], ["places"], {}),
        ("Reshape", ["said", "flat"], ["unscaled"], {}),
        ("Mul", ["unscaled", "list_own"], ["additions"], {}),
        ("ScatterElements", ["by_vectors", "places", "additions"], ["all_scores"], {"axis": 1, "reduction": "add"}),
    ]
