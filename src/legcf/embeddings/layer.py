# SPDX-License-Identifier: Apache-2.0
"""Define what every embedding layer is, trained or not, and layers that are solved: arrays of numpy, without torch."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from legcf.core.arrays import Arrays, FloatArray, Positions
from legcf.core.config import BackboneConfig, MethodConfig, RunConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset, Interactions
from legcf.embeddings.search_space import Space, common_space
from legcf.factorisation.als import AlsSettings
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.ranking import Codes, HistoryFilter

C = TypeVar("C", bound=MethodConfig)


class Layer(ABC, Generic[C]):
    """Give every entity a row: users first, then items, entity ids 0 … N−1.

    The constructor allocates shapes, `initialise` fills them from the training graph and a seeded generator.
    """

    # What a method says of itself.

    Config: ClassVar[type[MethodConfig]]
    summary: ClassVar[str]
    citation: ClassVar[str]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    """Named settings over the defaults: {section: {key: value}} with the sections method, backbone and training."""

    version: ClassVar[int] = 1
    """Raised when the same settings come to give another result: a results store then runs its rows anew."""

    config: C
    """The settings with all sizes filled in."""
    num_users: int
    num_items: int

    def __init__(self, config: C, num_users: int, num_items: int) -> None:
        super().__init__()
        self.config = self.sized(config, num_users, num_items)
        self.num_users, self.num_items = num_users, num_items

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

    @classmethod
    def search_space(cls, method: C, config: RunConfig) -> Space:
        """Return what `legcf search` tries beside these settings, by configuration key; only what has an effect."""
        return common_space(config)

    # Values.

    @property
    def num_entities(self) -> int:
        return self.num_users + self.num_items

    @property
    @abstractmethod
    def width(self) -> int:
        """Return the number of columns of a row."""

    @abstractmethod
    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        """Fill parameters and buffers for training from scratch."""

    @abstractmethod
    def array(self, name: str) -> NDArray[Any]:
        """Return the values of this parameter or buffer; what is written to them is written to the layer."""

    @abstractmethod
    def item_rows(self) -> FloatArray:
        """Return the rows of all items."""

    def added_rows(self) -> FloatArray | None:
        """Return the rows of any nodes that the layer adds to the graph."""
        return None

    def graph(self, adjacency: sp.csr_matrix) -> sp.csr_matrix:
        """Return the graph to propagate on, made from the user–item graph; nodes added by the layer come last."""
        return adjacency

    # What ranks beside the rows.

    def bias(self) -> FloatArray | None:
        """Return what is added to the items' scores, where a method has such a bias."""
        return None

    def item_codes(self) -> Codes | None:
        """Return the codebook and assignment whose product is the items' rows, where the layer is made so."""
        return None

    def item_lists(self, train: Interactions) -> ItemLists | None:
        """Return lists that the method ranks by beside its rows, or instead of them; made once, from training pairs."""
        return None

    def item_filter(self, train: Interactions) -> HistoryFilter | None:
        """Return the filter of the graph that scores histories, where the method ranks so instead of by its rows."""
        return None

    # Sizes.

    @abstractmethod
    def total_trainable(self) -> int:
        """Count all that is learned, in whichever stage."""

    def num_params(self) -> int:
        """Count stored values as the paper does: all that is learned, unless a method stores more or less."""
        return self.total_trainable()

    def entity_sizes(self) -> NDArray[np.int64] | None:
        """Return the stored values of every entity, shape (N,), where they differ between entities."""
        return None

    def storage_bytes(self) -> int:
        """Count the bytes of the layer's file: values, indices, masks and biases."""
        layer: Any = self
        return bytes_of(layer.state_dict().values())

    # Vectors from elsewhere: a warm start, and an update with new pairs.

    @property
    def start_table(self) -> str | None:
        """Return the run or file whose vectors training starts from, where the settings name one."""
        return None

    @property
    def start_factorisation(self) -> AlsSettings | None:
        """Return the settings of the factorisation that `initialise` hands to `initialise_from`, where it does."""
        return None

    @property
    def start_factorisations(self) -> int:
        """Return how many factorisations `initialise` averages and hands to `initialise_items`."""
        return 1

    def initialise_items(self, items: FloatArray) -> None:
        """Fill parameters with these vectors of items, of which the first columns matter most."""
        raise UserError(f"{type(self).__name__} cannot start from vectors of items alone.")

    def initialise_from(
        self, users: FloatArray, items: FloatArray, train: Interactions, rng: np.random.Generator
    ) -> None:
        """Fill parameters and buffers so that the rows are nearly these."""
        raise UserError(f"{type(self).__name__} cannot start from the vectors of another model.")

    @property
    def als_settings(self) -> AlsSettings:
        """Return the settings with which an update solves items' vectors anew."""
        return AlsSettings()

    def take_items(self, other: Any, changed: Positions, vectors: FloatArray) -> None:
        """Take the items' rows of another layer, and these vectors for the changed items; new items are at the end."""
        raise UserError(f"A model of {self.config.name} cannot be updated: train again with the new pairs.")


class SolvedLayer(Layer[C]):
    """Hold a layer that is counted or solved and never trained: arrays, of which `learned` names those that count."""

    learned: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: C, num_users: int, num_items: int, **arrays: NDArray[Any]) -> None:
        super().__init__(config, num_users, num_items)
        self.arrays: Arrays = arrays

    @classmethod
    def solves(cls, config: C) -> bool:
        """Return whether it ranks as the settings say, if the method also has a layer that is trained."""
        return True

    @classmethod
    def learns_codebook(cls, config: C) -> bool:
        """Return whether all that is trained, with a recipe of one plain stage, is the array `codebook`."""
        return False

    def array(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    @abstractmethod
    def table(self) -> FloatArray:
        """Return all rows; shape (N, width)."""

    def input_rows(self) -> FloatArray:
        """Return what enters the graph: the table, and the rows of any nodes the layer adds; shape (nodes, width)."""
        return self.table()

    @property
    def width(self) -> int:
        return int(self.table().shape[1])

    def item_rows(self) -> FloatArray:
        return self.table()[self.num_users :]

    def bias(self) -> FloatArray | None:
        return self.arrays.get("item_bias")

    def total_trainable(self) -> int:
        return sum(array.size for name, array in self.arrays.items() if name in self.learned)

    def pack(self, state: Arrays) -> None:
        """Shrink in place what is saved: narrow indices, and nothing that is needed no more."""

    def state_dict(self) -> Arrays:
        """Return what a file holds of the layer."""
        state = dict(self.arrays)
        self.pack(state)
        return state

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""
        if state.keys() != self.arrays.keys():
            raise ValueError(f"its arrays are {', '.join(state)}, not {', '.join(self.arrays)}")
        for name, array in self.arrays.items():
            if state[name].shape != array.shape:
                raise ValueError(f"{name} has the shape {state[name].shape}, not {array.shape}")
            array[...] = state[name]


def bytes_of(arrays: Iterable[Any]) -> int:
    """Count the bytes of arrays or tensors."""
    return sum(int(array.nbytes) for array in arrays)


def xavier_values(shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    bound = np.sqrt(6 / (shape[0] + shape[1]))
    return rng.uniform(-bound, bound, shape).astype(np.float32)


def normal_values(shape: tuple[int, ...], deviation: float, rng: np.random.Generator) -> FloatArray:
    return (rng.standard_normal(shape) * deviation).astype(np.float32)
