# SPDX-License-Identifier: Apache-2.0
"""The contract of an embedding layer: a row for every entity, whatever it is made of."""

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
from legcf.core.search_space import PAPER_GRID, Space
from legcf.data.interactions import Interactions
from legcf.factorisation.als import AlsSettings
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.ranking import Codes

C = TypeVar("C", bound=MethodConfig)
StateDict = dict[str, torch.Tensor]


@dataclass(frozen=True)
class ComparisonRow:
    """A row of the table that compares all methods (the paper's Table 2)."""

    label: str
    group: str = "variable size"
    within_budget: bool = True
    """Whether it is given LEGCF's budget; methods of one size end where their own settings lead."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    reference: bool = False
    """Not a rival for the best: it is not compressed."""
    fitted: Mapping[str, Any] = field(default_factory=dict)
    """Settings with which it starts from a factorisation, if it can and does not do so anyway."""


class EmbeddingLayer(nn.Module, ABC, Generic[C]):
    """Users come first, then items: entity ids 0 … N−1.

    The constructor allocates shapes, `initialise` fills them from the training graph and a seeded generator; loading a
    saved layer is the constructor and `load_state_dict`. State that is not learned by gradient (assignments, masks,
    hash constants) lives in buffers, so that checkpoints hold all of it.
    """

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

    item_bias: nn.Parameter | None
    """Added to an item's scores where a method has one."""

    config: C
    """The settings with all sizes filled in."""

    def __init__(self, config: C, num_users: int, num_items: int) -> None:
        super().__init__()
        self.config = self.sized(config, num_users, num_items)
        self.num_users, self.num_items = num_users, num_items
        self.register_parameter("item_bias", None)
        self.register_state_dict_post_hook(lambda layer, *given: _within(layer.pack, *given))  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(lambda layer, *given: _within(layer.unpack, *given))  # type: ignore[no-untyped-call]

    @property
    def num_entities(self) -> int:
        return self.num_users + self.num_items

    @property
    def width(self) -> int:
        """Columns of a row."""
        with torch.no_grad():
            return self.rows(torch.tensor([0])).shape[1]

    @abstractmethod
    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        """Fill parameters and buffers for training from scratch."""

    @property
    def start_table(self) -> str | None:
        """The run or file whose vectors training starts from, where the settings name one (`initialise_from`)."""
        return None

    @property
    def als_settings(self) -> AlsSettings:
        """The settings with which an update solves items' vectors anew."""
        return AlsSettings()

    def take_items(self, other: Self, changed: Positions, vectors: FloatArray) -> None:
        """The rows of another layer for its items, these vectors for the changed ones; items at the end are new."""
        raise UserError(f"A model of {self.config.name} cannot be updated: train again with the new pairs.")

    def initialise_from(
        self, users: FloatArray, items: FloatArray, train: Interactions, rng: np.random.Generator
    ) -> None:
        """Fill parameters and buffers so that the rows are nearly these."""
        raise UserError(f"{type(self).__name__} cannot start from vectors that are given.")

    @abstractmethod
    def table(self) -> torch.Tensor:
        """All N rows, differentiable."""

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Equal to table()[ids]; override where rows cost less than the table."""
        return self.table()[ids]

    def input_rows(self) -> torch.Tensor:
        """What enters the graph: the table, and the rows of any nodes the layer adds to the graph."""
        return self.table()

    def graph(self, adjacency: sp.csr_matrix) -> sp.csr_matrix:
        """The graph to propagate on, made from the user–item graph; nodes added by the layer come last."""
        return adjacency

    def item_codes(self) -> Codes | None:
        """Codebook and assignment whose product is the items' rows, where the layer is made so."""
        return None

    def item_lists(self, train: Interactions) -> ItemLists | None:
        """Lists that the method ranks by beside its rows, or instead of them; made once, from the training pairs."""
        return None

    def penalty(self) -> torch.Tensor | None:
        """What the method adds to the loss of a step, beside the L2 of the loop; differentiable."""
        return None

    @classmethod
    def sized(cls, config: C, num_users: int, num_items: int) -> C:
        """The same settings with every size that was left to the data filled in, within the budget they name.

        The constructor asks for it, and `config` of the layer has the answer; `budget.widest_within` tries widths.
        """
        return config

    @classmethod
    def within(cls, config: C, room: int, num_items: int) -> C:
        """The same settings, with sizes that nobody set as large as suits a model file with so many bytes for items."""
        return config

    @classmethod
    def check(cls, config: C, backbone: BackboneConfig) -> None:
        """Refuse settings that do not go together with the backbone's."""

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter] | None:
        """(B, Θ) with input_rows() = B · Θ and Θ small, where the layer is linear; it then trains on the basis."""
        return None

    def num_params(self) -> int:
        """Stored values as the paper counts them: all that is learned, unless a method stores more or less."""
        return sum(parameter.numel() for parameter in self.parameters())

    def pack(self, state: StateDict) -> None:
        """Make what is saved small, in place: narrow indices, and nothing that is needed no more."""

    def unpack(self, state: StateDict) -> None:
        """Give back the shapes and names that `pack` took; loading brings numbers back to their own type by itself."""

    def storage_bytes(self) -> int:
        """What a file of the layer holds: values, indices, masks and biases."""
        return bytes_of(*self.state_dict().values())

    def entity_sizes(self) -> NDArray[np.int64] | None:
        """Stored values of every entity, where they differ between entities."""
        return None

    def total_trainable(self) -> int:
        """All that is learned, in whichever stage."""
        return sum(parameter.numel() for parameter in self.parameters())


def _within(change: Callable[[StateDict], None], state: StateDict, prefix: str, *_: Any) -> None:
    """Change what of a whole model's state is the layer's own."""
    own = {name.removeprefix(prefix): state.pop(name) for name in list(state) if name.startswith(prefix)}
    change(own)
    state.update({prefix + name: tensor for name, tensor in own.items()})


def take_saved_shapes(module: nn.Module, *names: str) -> None:
    """For what grows or shrinks in training: loading a state gives these parameters and buffers its shapes."""

    def resize(module: nn.Module, state: Mapping[str, torch.Tensor], prefix: str, *_: Any) -> None:
        for name in names:
            own, saved = getattr(module, name), state.get(prefix + name)
            if saved is not None and saved.shape != own.shape:
                own.grad = None
                own.data = torch.empty_like(saved)

    module.register_load_state_dict_pre_hook(resize)  # type: ignore[no-untyped-call]


def smallest_type(count: int) -> torch.dtype:
    """Of the numbers below `count`, in whole bytes."""
    return torch.uint8 if count <= 2**8 else torch.uint16 if count <= 2**16 else torch.int32


def bytes_of(*tensors: torch.Tensor | None) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


def ones_at(columns: NDArray[np.integer], width: int) -> sp.csr_matrix:
    """The sparse matrix with a one at every row's columns; a column named twice counts twice."""
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
