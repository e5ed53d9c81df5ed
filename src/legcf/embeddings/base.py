# SPDX-License-Identifier: Apache-2.0
"""Define the contract of an embedding layer that torch trains: a row for every entity, whatever it is made of."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import nn

from legcf.core.arrays import FloatArray
from legcf.embeddings.layer import C, Layer, normal_values

StateDict = dict[str, torch.Tensor]


class EmbeddingLayer(nn.Module, Layer[C]):
    """Learn rows by gradient.

    A method must say what it is, `initialise` and give its `table`; all else has a default. Loading a saved layer is
    the constructor and `load_state_dict`. State that is not learned by gradient (assignments, masks, hash constants)
    lives in buffers, so that checkpoints hold all of it.
    """

    item_bias: nn.Parameter | None
    """Added to an item's scores where a method has one; shape (items,)."""

    def __init__(self, config: C, num_users: int, num_items: int) -> None:
        nn.Module.__init__(self)
        self.config = self.sized(config, num_users, num_items)
        self.num_users, self.num_items = num_users, num_items
        self.register_parameter("item_bias", None)
        self.register_state_dict_post_hook(lambda layer, *state: _within(layer.pack, *state))  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(lambda layer, *state: _within(layer.unpack, *state))  # type: ignore[no-untyped-call]

    # Rows.

    @property
    def width(self) -> int:
        with torch.no_grad():
            return self.rows(torch.tensor([0])).shape[1]

    def array(self, name: str) -> NDArray[Any]:
        values: NDArray[Any] = getattr(self, name).detach().numpy()
        return values

    @abstractmethod
    def table(self) -> torch.Tensor:
        """Return all rows, differentiable; shape (N, width)."""

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return table()[ids], shape (ids, width); override where rows cost less than the table."""
        return self.table()[ids]

    def item_rows(self) -> FloatArray:
        with torch.no_grad():
            rows: FloatArray = self.rows(torch.arange(self.num_users, self.num_entities)).numpy()
        return rows

    def bias(self) -> FloatArray | None:
        return None if self.item_bias is None else self.array("item_bias")

    # The graph, and what is linear in it.

    def input_rows(self) -> torch.Tensor:
        """Return what enters the graph: the table, and the rows of any nodes the layer adds; shape (nodes, width)."""
        return self.table()

    def added_rows(self) -> FloatArray | None:
        if type(self).input_rows is EmbeddingLayer.input_rows:
            return None
        with torch.no_grad():
            rows: FloatArray = self.input_rows()[self.num_entities :].numpy()
        return rows if len(rows) else None

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter] | None:
        """Return (B, Θ) with input_rows() = B · Θ and Θ small, where the layer is linear: it trains on the basis."""
        return None

    def penalty(self) -> torch.Tensor | None:
        """Return what the method adds to the loss of a step, beside the L2 of the loop; a differentiable scalar."""
        return None

    # Sizes.

    def total_trainable(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def pack(self, state: StateDict) -> None:
        """Shrink in place what is saved: narrow indices, and nothing that is needed no more."""

    def unpack(self, state: StateDict) -> None:
        """Give back the shapes and names that `pack` took; loading brings numbers back to their own type by itself."""


def _within(change: Callable[[StateDict], None], state: StateDict, prefix: str, *_: Any) -> None:
    """Change that part of a whole model's state which is the layer's."""
    part = {name.removeprefix(prefix): state.pop(name) for name in list(state) if name.startswith(prefix)}
    change(part)
    state |= {prefix + name: tensor for name, tensor in part.items()}


def smallest_type(count: int) -> torch.dtype:
    """Return the smallest type, in whole bytes, that holds the numbers below `count`."""
    return torch.uint8 if count <= 2**8 else torch.uint16 if count <= 2**16 else torch.int32


def normal(shape: tuple[int, ...], deviation: float, rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy(normal_values(shape, deviation, rng))
