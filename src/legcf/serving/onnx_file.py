"""The scorer as an ONNX graph of standard operators: user positions in, the best k items and their scores out.

Seen items are not left out (a graph has no histories): ask for more than needed and filter.
"""

from pathlib import Path
from typing import Any

import numpy as np

from legcf.errors import MissingExtra, UserError
from legcf.files import written_whole
from legcf.serving.artifact import ServingModel
from legcf.serving.rows import CodedRows

_OPSET = 18


def write_onnx(model: ServingModel, path: Path) -> int:
    """Inputs `users` (int64, batch) and `k` (int64, one number); outputs `items` and `scores` (batch × k)."""
    try:
        from onnx import TensorProto, checker, helper, numpy_helper, save_model
    except ImportError as error:
        raise MissingExtra("The ONNX export", "onnx") from error
    users, items = model.user_rows, model.item_rows
    if not isinstance(users, CodedRows) or not isinstance(items, CodedRows):
        raise UserError("The ONNX scorer is made of codes of users and items: export it with --users coded.")
    constants: dict[str, Any] = {
        "codebook": items.codebook,
        "codebook_across": np.ascontiguousarray(items.codebook.T),
        "user_columns": users.columns.astype(np.int64),
        "user_weights": users.weights[..., None],
        "item_columns": items.columns.astype(np.int64),
        "item_weights": items.weights,
        "terms_of_user": np.array([1], dtype=np.int64),
        "terms_of_item": np.array([2], dtype=np.int64),
        "item_bias": np.zeros(len(items), np.float32) if model.item_bias is None else model.item_bias,
    }
    steps: list[tuple[str, list[str], list[str], dict[str, Any]]] = [
        ("Gather", ["user_columns", "users"], ["columns"], {}),
        ("Gather", ["user_weights", "users"], ["weights"], {}),
        ("Gather", ["codebook", "columns"], ["atoms"], {}),
        ("Mul", ["atoms", "weights"], ["weighted_atoms"], {}),
        ("ReduceSum", ["weighted_atoms", "terms_of_user"], ["vectors"], {"keepdims": 0}),  # h_u
        ("MatMul", ["vectors", "codebook_across"], ["projected"], {}),  # g = H_meta h_u
        ("Gather", ["projected", "item_columns"], ["terms"], {"axis": 1}),
        ("Mul", ["terms", "item_weights"], ["weighted_terms"], {}),
        ("ReduceSum", ["weighted_terms", "terms_of_item"], ["products"], {"keepdims": 0}),
        ("Add", ["products", "item_bias"], ["all_scores"], {}),
        ("TopK", ["all_scores", "k"], ["scores", "items"], {"axis": -1}),
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, outputs, **options) for kind, inputs, outputs, options in steps],
        "legcf scorer",
        [
            helper.make_tensor_value_info("users", TensorProto.INT64, ["batch"]),
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
