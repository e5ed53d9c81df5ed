# SPDX-License-Identifier: Apache-2.0
"""Hold what one small file holds, write it and read it. Numpy only.

A coded model stores S (packed columns, quantised weights) and H_meta; a full one stores the propagated table. Beside
them: id maps, item popularity, and optionally titles, attributes of items, the history of every user, item lists, the
maps from features of items and of users to vectors, and the model card. A new field of the file is a field of
`ServedModel`, with a line in `_to_store` and one in `_from_store`.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.core.errors import UserError
from legcf.core.files import parse_json
from legcf.data.ids import IdMap
from legcf.features.encoder import FeatureEncoder
from legcf.modelfile import codecs
from legcf.modelfile.attributes import Attributes
from legcf.modelfile.container import damaged, read_container, write_container
from legcf.modelfile.histories import PackedHistories, PackedWeights
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.tables.embedding_table import EmbeddingTable
from legcf.ranking.tables.pooling import Pooling

DTYPES = ("int8", "float16", "float32")
"""How a file may store its numbers."""
EVENT_WEIGHTS = "event_weights"
"""The key of a run's metrics, and so of a file's card, that says how much each kind of event counts."""
LIST_BITS = 8  # of a weight in an item list, at most: lists that were rounded to fewer take fewer
_HEADER_BYTES = 12_000  # reserved for configuration and model card
_CODES_IN_HEADER, _BYTES_PER_CODE = 1000, 4  # what each code beyond the first thousand adds to the reserve
_LARGEST_SCALE = 1e12  # scores stay finite in float32
# The sizes of these are always reported.
_PARTS = ("vectors", "lists", "ids", "titles", "history", "dislikes", "attributes", "features")
_VECTORS = ("codebook", "item_rows", "user_rows", "item_bias", "popularity")  # arrays that are reported together


@dataclass(frozen=True)
class FoldIn:
    """Hold the settings by which a user's vector u is solved from the rows v_j of its history, as ALS solves it:

    (unobserved · VᵀV + Σ_j w_j v_j v_jᵀ + ridge · mean(diag VᵀV) · I) u = scale · Σ_j w_j v_j,  w_j = count_j^−damping

    with w scaled to mean 1 over the history. Chosen at export (`legcf.export.calibrate`).
    """

    unobserved: float = 0.1
    ridge: float = 1e-3
    damping: float = 0.5
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class ServedModel:
    """Hold a model as its file gives it back. What is None is not in the file."""

    items: IdMap
    item_rows: EmbeddingTable
    popularity: NDArray[np.integer]  # how many users have each item
    users: IdMap | None = None
    user_rows: EmbeddingTable | None = None
    item_bias: FloatArray | None = None
    titles: list[str] | None = None
    history: PackedHistories | None = None
    pooling: Pooling | None = None  # users are the weighted sums of their items
    fold_in: FoldIn = FoldIn()  # how a user is solved from its items, where it is no such sum
    card: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float16"
    lists: ItemLists | None = None  # what a user's items add to scores beside the vectors
    attributes: Attributes | None = None  # of items, to filter by
    encoder: FeatureEncoder | None = None  # of new items, by their features
    user_encoder: FeatureEncoder | None = None  # of users who have nothing yet, by theirs
    dislikes: PackedHistories | None = None  # what users do not want
    repeats: bool = False  # whether users take again what they have, and so are shown it
    list_bits: int = LIST_BITS  # of a weight in the lists, when they are written

    def item_name(self, item: int) -> str:
        return self.titles[item] if self.titles is not None else str(self.items.values[item])

    def excludes_seen(self, asked: bool | None) -> bool:
        """Say whether to leave out what users have: as asked, else as the model was tested."""
        return not self.repeats if asked is None else asked

    def save(self, path: Path) -> dict[str, int]:
        """Write the model and return the bytes of each of its parts."""
        store, config = _to_store(self)
        metadata = {"config": json.dumps(config), "card": json.dumps(self.card, default=float)}
        write_container(path, store, metadata)
        sizes = dict.fromkeys(_PARTS, 0)
        for name, block in store.items():
            part = name.split(".")[0]
            part = "vectors" if part in _VECTORS else part
            sizes[part] = sizes.get(part, 0) + block.nbytes
        sizes["header"] = path.stat().st_size - sum(sizes.values())
        return sizes

    @classmethod
    def load(cls, path: Path) -> "ServedModel":
        store, metadata = read_container(path)
        try:
            config = parse_json(metadata["config"])
            if config.get("neighbour_scale"):
                raise UserError(
                    f"{path} adds what neighbours took to scores, which legcf no longer does; item lists replace it:"
                    " train again with the preset default, and export that."
                )
            return _from_store(store, config, parse_json(metadata["card"]))
        except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError) as error:
            reason = " ".join(str(error).split())[:200]  # it may quote the file
            raise damaged(path, f"its content is not consistent: {reason}") from error


def fixed_bytes(items: IdMap, titles: list[str] | None, popularity: NDArray[np.integer]) -> int:
    """Return the bytes that a model file takes beside vectors and lists: names, counts, and a reserve for the header.

    The byte budget of a training is what this leaves, so another reserve would give other models.
    """
    store: codecs.Store = {}
    codecs.put_ids(store, "ids.items", items)
    codecs.put_integers(store, "popularity", popularity)
    if titles is not None:
        codecs.put_text(store, "titles", titles)
    return sum(block.nbytes for block in store.values()) + _HEADER_BYTES


def codebook_reserve(codes: int) -> int:
    """Return the bytes that `fixed_bytes` grows by for a codebook of this size."""
    return _BYTES_PER_CODE * max(codes - _CODES_IN_HEADER, 0)


def encoder_bytes(encoder: FeatureEncoder) -> int:
    """Return the bytes that the map from features takes in a file of int8."""
    store: codecs.Store = {}
    facts = codecs.put_encoder(store, "features", encoder, "int8")
    return sum(block.nbytes for block in store.values()) + len(json.dumps(facts))


def _to_store(model: ServedModel) -> tuple[codecs.Store, dict[str, Any]]:
    config: dict[str, Any] = {"dtype": model.dtype, "items": len(model.items)}
    if model.pooling is not None:
        config["pooling"] = {"user_power": model.pooling.user_power, "item_power": model.pooling.item_power}
        if model.pooling.half_life is not None:
            config["pooling"]["half_life"] = model.pooling.half_life
    if model.repeats:
        config["repeats"] = True
    config["fold_in"] = {"user": vars(model.fold_in)}
    store: codecs.Store = {}
    config["popularity"] = codecs.put_integers(store, "popularity", model.popularity)
    if model.item_rows.codes is not None:
        config["codebook"] = codecs.put_matrix(store, "codebook", model.item_rows.codes.codebook, model.dtype)
    config["item_rows"] = codecs.put_rows(store, "item_rows", model.item_rows, model.dtype)
    config["item_ids"] = codecs.put_ids(store, "ids.items", model.items)
    if model.item_bias is not None:
        store["item_bias"] = model.item_bias.astype(np.float32 if model.dtype == "float32" else np.float16)
    if model.lists is not None:
        config["lists"] = codecs.put_lists(store, "lists", model.lists, model.list_bits)
    if model.titles is not None:
        codecs.put_text(store, "titles", model.titles)
    if model.attributes is not None:
        config["attributes"] = model.attributes.put(store)
    if model.encoder is not None:
        config["features"] = codecs.put_encoder(store, "features", model.encoder, model.dtype)
    if model.user_encoder is not None:
        config["user_features"] = codecs.put_encoder(store, "user_features", model.user_encoder, model.dtype)
    if model.users is not None:
        config["users"] = len(model.users)
        config["user_ids"] = codecs.put_ids(store, "ids.users", model.users)
        if model.user_rows is not None:
            config["user_rows"] = codecs.put_rows(store, "user_rows", model.user_rows, model.dtype)
        if model.history is not None:
            codecs.put_pairs(store, "history", model.history)
            config["history"] = model.history.num_pairs
            weights = model.history.weights
            if weights is not None:
                store["history.weights"], store["history.levels"] = weights.codes.packed, weights.levels
        if model.dislikes is not None:
            codecs.put_pairs(store, "dislikes", model.dislikes)
            config["dislikes"] = model.dislikes.num_pairs
    return store, config


def _from_store(store: codecs.Store, config: dict[str, Any], card: dict[str, Any]) -> ServedModel:
    num_items, dtype = codecs.count(config["items"]), config["dtype"]
    if dtype not in DTYPES or not isinstance(card, dict):
        raise ValueError("unknown number format")
    codebook = codecs.get_matrix(store, "codebook", config["codebook"]) if "codebook" in config else None
    item_rows = codecs.get_rows(store, "item_rows", config["item_rows"], num_items, codebook)
    users, user_rows, history, dislikes = None, None, None, None
    if "users" in config:
        num_users = codecs.count(config["users"])
        # ids that count up take no bytes: what they promise must still be in proportion to what the file holds
        codecs.expect(num_users <= 2 * sum(block.nbytes for block in store.values()), "there are too many users")
        users = codecs.get_ids(store, "ids.users", config["user_ids"], num_users, "user")
        if "user_rows" in config:
            user_rows = codecs.get_rows(store, "user_rows", config["user_rows"], num_users, codebook)
            codecs.expect(user_rows.width == item_rows.width, "users and items differ in width")
        if "history" in config:
            history = _get_history(store, codecs.count(config["history"]), num_users, num_items)
        if "dislikes" in config:
            dislikes = codecs.get_pairs(store, "dislikes", codecs.count(config["dislikes"]), num_users, num_items)
    popularity = codecs.get_integers(store, "popularity", config["popularity"], num_items)
    bias = None
    if "item_bias" in store:
        bias = codecs.finite(
            codecs.array(store, "item_bias", np.float32 if dtype == "float32" else np.float16, (num_items,))
        )
    titles = codecs.get_text(store, "titles", num_items) if "titles.text" in store else None
    pooling = _get_pooling(config["pooling"], popularity) if "pooling" in config else None
    items = codecs.get_ids(store, "ids.items", config["item_ids"], num_items, "item")
    fold_in = FoldIn(**{name: float(value) for name, value in config["fold_in"]["user"].items()})
    codecs.expect(all(0 <= value <= _LARGEST_SCALE for value in vars(fold_in).values()), "fold-in settings are wrong")
    return ServedModel(
        items=items,
        item_rows=item_rows,
        popularity=popularity,
        users=users,
        user_rows=user_rows,
        item_bias=bias,
        titles=titles,
        history=history,
        pooling=pooling,
        fold_in=fold_in,
        card=card,
        dtype=dtype,
        lists=codecs.get_lists(store, "lists", config["lists"], num_items) if "lists" in config else None,
        attributes=Attributes.get(store, config["attributes"], num_items) if "attributes" in config else None,
        encoder=codecs.get_encoder(store, "features", config.get("features"), item_rows.width),
        user_encoder=codecs.get_encoder(store, "user_features", config.get("user_features"), item_rows.width),
        dislikes=dislikes,
        repeats=config.get("repeats", False) is True,
    )


def _get_pooling(config: dict[str, Any], popularity: NDArray[np.integer]) -> Pooling:
    powers = float(config["user_power"]), float(config["item_power"])
    codecs.expect(all(-4 <= power <= 4 for power in powers), "the powers of pooling are wrong")
    half_life = float(config["half_life"]) if "half_life" in config else None
    codecs.expect(half_life is None or 1e-9 <= half_life <= _LARGEST_SCALE, "the half-life of pooling is wrong")
    return Pooling(*powers, popularity, half_life)


def _get_history(store: codecs.Store, pairs: int, num_users: int, num_items: int) -> PackedHistories:
    packed = codecs.get_pairs(store, "history", pairs, num_users, num_items)
    if "history.weights" not in store:
        return packed
    levels = codecs.finite(codecs.array(store, "history.levels", np.float32, None)).copy()
    weights = PackedWeights.unpack(codecs.array(store, "history.weights", np.uint8, None), levels, pairs)
    return replace(packed, weights=weights)
