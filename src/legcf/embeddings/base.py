# SPDX-License-Identifier: Apache-2.0
"""Define the contract of an embedding layer: a row for every entity, whatever it is made of."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import nn

from legcf.core.arrays import FloatArray, Positions
from legcf.core.config import BackboneConfig, MethodConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset, Interactions
from legcf.embeddings.search_space import PAPER_GRID, Space
from legcf.factorisation.als import AlsSettings
from legcf.ranking.graph_filter import GraphFilter
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.ranking import Codes

C = TypeVar("C", bound=MethodConfig)
StateDict = dict[str, torch.Tensor]


@dataclass(frozen=True)
class ComparisonRow:
    """Describe a row of the table that compares all methods (the paper's Table 2)."""

    label: str
    group: str = "variable size"
    within_budget: bool = True
    """Whether it has to keep to LEGCF's budget; methods of one size end where their own settings lead."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    reference: bool = False
    """Not a rival for the best: it is not compressed."""
    fitted: Mapping[str, Any] = field(default_factory=dict)
    """Settings with which it starts from a factorisation, if it can and does not do so anyway."""


class EmbeddingLayer(nn.Module, ABC, Generic[C]):
    """Give every entity a row: users first, then items, entity ids 0 … N−1.

    A method must say what it is, `initialise` and give its `table`; all else has a default. The constructor allocates
    shapes, `initialise` fills them from the training graph and a seeded generator; loading a saved layer is the
    constructor and `load_state_dict`. State that is not learned by gradient (assignments, masks, hash constants) lives
    in buffers, so that checkpoints hold all of it.
    """

    # What a method says of itself.

    Config: ClassVar[type[MethodConfig]]
    summary: ClassVar[str]
    citation: ClassVar[str]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    """Named settings over the defaults: {section: {key: value}} with the sections method, backbone and training."""

    version: ClassVar[int] = 1
    """Raised when the same settings come to give another result: a results store then runs its rows anew."""

    comparison_rows: ClassVar[Mapping[str, ComparisonRow] | None] = {}
    """Rows of that table, by name; one under the method's own name if it is empty, none at all if it is None."""

    search_space: ClassVar[Space] = PAPER_GRID
    """What `legcf search` tries, by configuration key."""

    config: C
    """The settings with all sizes filled in."""

    item_bias: nn.Parameter | None
    """Added to an item's scores where a method has one; shape (items,)."""

    def __init__(self, config: C, num_users: int, num_items: int) -> None:
        super().__init__()
        self.config = self.sized(config, num_users, num_items)
        self.num_users, self.num_items = num_users, num_items
        self.register_parameter("item_bias", None)
        self.register_state_dict_post_hook(lambda layer, *state: _within(layer.pack, *state))  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(lambda layer, *state: _within(layer.unpack, *state))  # type: ignore[no-untyped-call]

    # Settings: sizes that follow from a budget, and what does not go together.

    @classmethod
    def sized(cls, config: C, num_users: int, num_items: int) -> C:
        """Return the settings with every size that was left to the data filled in, within the budget they name."""
        return config

    @classmethod
    def within(cls, config: C, byte_budget: int, num_items: int) -> C:
        """Return the settings with sizes that nobody set as large as suits a file with so many bytes for items."""
        return config

    @classmethod
    def chosen(cls, config: C, dataset: Dataset) -> C:
        """Return the settings with what the method itself chooses on held-out pairs; most choose nothing."""
        return config

    @classmethod
    def check(cls, config: C, backbone: BackboneConfig) -> None:
        """Refuse settings that do not go together with the backbone's."""

    # Rows.

    @property
    def num_entities(self) -> int:
        return self.num_users + self.num_items

    @property
    def width(self) -> int:
        """Return the number of columns of a row."""
        with torch.no_grad():
            return self.rows(torch.tensor([0])).shape[1]

    @abstractmethod
    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        """Fill parameters and buffers for training from scratch."""

    @abstractmethod
    def table(self) -> torch.Tensor:
        """Return all rows, differentiable; shape (N, width)."""

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return table()[ids], shape (ids, width); override where rows cost less than the table."""
        return self.table()[ids]

    # The graph, and what is linear in it.

    def graph(self, adjacency: sp.csr_matrix) -> sp.csr_matrix:
        """Return the graph to propagate on, made from the user–item graph; nodes added by the layer come last."""
        return adjacency

    def input_rows(self) -> torch.Tensor:
        """Return what enters the graph: the table, and the rows of any nodes the layer adds; shape (nodes, width)."""
        return self.table()

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter] | None:
        """Return (B, Θ) with input_rows() = B · Θ and Θ small, where the layer is linear: it trains on the basis."""
        return None

    def penalty(self) -> torch.Tensor | None:
        """Return what the method adds to the loss of a step, beside the L2 of the loop; a differentiable scalar."""
        return None

    # What ranks beside the rows.

    def item_codes(self) -> Codes | None:
        """Return the codebook and assignment whose product is the items' rows, where the layer is made so."""
        return None

    def item_lists(self, train: Interactions) -> ItemLists | None:
        """Return lists that the method ranks by beside its rows, or instead of them; made once, from training pairs."""
        return None

    def item_filter(self, train: Interactions) -> GraphFilter | None:
        """Return the filter of the graph that scores histories, where the method ranks so instead of by its rows."""
        return None

    # Sizes.

    def num_params(self) -> int:
        """Count stored values as the paper does: all that is learned, unless a method stores more or less."""
        return sum(parameter.numel() for parameter in self.parameters())

    def total_trainable(self) -> int:
        """Count all that is learned, in whichever stage."""
        return sum(parameter.numel() for parameter in self.parameters())

    def entity_sizes(self) -> NDArray[np.int64] | None:
        """Return the stored values of every entity, shape (N,), where they differ between entities."""
        return None

    def pack(self, state: StateDict) -> None:
        """Shrink in place what is saved: narrow indices, and nothing that is needed no more."""

    def unpack(self, state: StateDict) -> None:
        """Give back the shapes and names that `pack` took; loading brings numbers back to their own type by itself."""

    def storage_bytes(self) -> int:
        """Count the bytes of the layer's file: values, indices, masks and biases."""
        return bytes_of(*self.state_dict().values())

    # Vectors from elsewhere: a warm start, and an update with new pairs.

    @property
    def start_table(self) -> str | None:
        """Return the run or file whose vectors training starts from, where the settings name one."""
        return None

    def initialise_from(
        self, users: FloatArray, items: FloatArray, train: Interactions, rng: np.random.Generator
    ) -> None:
        """Fill parameters and buffers so that the rows are nearly these."""
        raise UserError(f"{type(self).__name__} cannot start from the vectors of another model.")

    @property
    def als_settings(self) -> AlsSettings:
        """Return the settings with which an update solves items' vectors anew."""
        return AlsSettings()

    def take_items(self, other: Self, changed: Positions, vectors: FloatArray) -> None:
        """Take the items' rows of another layer, and these vectors for the changed items; new items are at the end."""
        raise UserError(f"A model of {self.config.name} cannot be updated: train again with the new pairs.")


def _within(change: Callable[[StateDict], None], state: StateDict, prefix: str, *_: Any) -> None:
    """Change that part of a whole model's state which is the layer's."""
    part = {name.removeprefix(prefix): state.pop(name) for name in list(state) if name.startswith(prefix)}
    change(part)
    state |= {prefix + name: tensor for name, tensor in part.items()}


def take_saved_shapes(module: nn.Module, *names: str) -> None:
    """Let a loaded state give these parameters and buffers its shapes, for what grows or shrinks in training."""

    def resize(module: nn.Module, state: Mapping[str, torch.Tensor], prefix: str, *_: Any) -> None:
        for name in names:
            tensor, saved = getattr(module, name), state.get(prefix + name)
            if saved is not None and saved.shape != tensor.shape:
                tensor.grad = None
                tensor.data = torch.empty_like(saved)

    module.register_load_state_dict_pre_hook(resize)  # type: ignore[no-untyped-call]


def smallest_type(count: int) -> torch.dtype:
    """Return the smallest type, in whole bytes, that holds the numbers below `count`."""
    return torch.uint8 if count <= 2**8 else torch.uint16 if count <= 2**16 else torch.int32


def bytes_of(*tensors: torch.Tensor | None) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


def ones_at(columns: NDArray[np.integer], width: int) -> sp.csr_matrix:
    """Return the sparse matrix with a one at every row's columns; a column named twice counts twice."""
    rows, each = columns.shape
    ones = np.ones(rows * each, dtype=np.float32)
    matrix = sp.csr_matrix((ones, columns.ravel().astype(np.int32), np.arange(0, rows * each + 1, each)), (rows, width))
    matrix.sum_duplicates()
    return matrix


def xavier_uniform(shape: tuple[int, int], rng: np.random.Generator) -> torch.Tensor:
    bound = np.sqrt(6 / (shape[0] + shape[1]))
    return torch.from_numpy(rng.uniform(-bound, bound, shape).astype(np.float32))


def normal(shape: tuple[int, ...], deviation: float, rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy((rng.standard_normal(shape) * deviation).astype(np.float32))
