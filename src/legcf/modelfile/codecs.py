# SPDX-License-Identifier: Apache-2.0
"""Put the parts of a model file into arrays (matrices, tables, ids, texts) and get them out with every size checked.

Numpy only.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.data.ids import IdMap, text_from_arrays, text_to_arrays
from legcf.features.coder import FeatureCoder
from legcf.features.encoder import FeatureEncoder, FeatureMap
from legcf.modelfile.histories import PackedHistories
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.precision import column_type
from legcf.ranking.tables import packing
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable, EmbeddingTable, QuantisedTable

Store = dict[str, NDArray[np.generic]]
_LARGEST = 1e6
_MOST_FEATURES = 2**16  # columns of a row of features
_MOST_MAP_ENTRIES = 2**25  # 128 MB in memory, of which a file holds the rows that are not zero

_LARGEST_FIRST_ID = 2**62  # of ids that count up: their last fits 64 bits


def put_matrix(store: Store, name: str, matrix: FloatArray, dtype: str) -> dict[str, Any]:
    if dtype == "int8":
        store[f"{name}.values"], store[f"{name}.scale"], top = packing.quantise_rows(matrix)
        return {"shape": list(matrix.shape), "top": top}
    store[f"{name}.values"] = matrix.astype(np.float32 if dtype == "float32" else np.float16)
    return {"shape": list(matrix.shape)}


def get_matrix(store: Store, name: str, config: dict[str, Any]) -> FloatArray:
    values, scales = get_stored(store, name, config)
    return finite(values if scales is None else values * scales[:, None])


def get_stored(
    store: Store, name: str, config: dict[str, Any]
) -> tuple[FloatArray | NDArray[np.int8], FloatArray | None]:
    """Return a matrix in as few bytes as it can be worked with: float32, or int8 and the scale of each row."""
    rows, columns = (count(size) for size in config["shape"])
    expect(rows >= 1 and columns >= 1, f"{name} is empty")
    if "top" not in config:
        exact = np.float32 if store[f"{name}.values"].dtype == np.float32 else np.float16
        return finite(array(store, f"{name}.values", exact, (rows, columns))), None
    values = array(store, f"{name}.values", np.int8, (rows, columns))
    scale = array(store, f"{name}.scale", np.uint8, (rows,))
    expect(0 < config["top"] <= _LARGEST / 127, f"the scale of {name} is wrong")
    return values.copy(), packing.row_scales(scale, float(config["top"]))  # a view would keep the whole file in memory


def put_rows(store: Store, name: str, rows: EmbeddingTable, dtype: str) -> dict[str, Any]:
    config: dict[str, Any] = {"kind": rows.kind}
    match rows:
        case CodebookTable():
            store[f"{name}.columns"] = packing.pack_bits(rows.columns, packing.bits_for(len(rows.codebook)))
            config["weights"] = put_matrix(store, f"{name}.weights", rows.weights, dtype)
        case QuantisedTable():
            top = float(rows.scales.max(initial=0.0)) or 1.0
            store[f"{name}.values"] = packing.pack_bits(rows.values, rows.bits)
            store[f"{name}.scale"] = packing.scale_steps(rows.scales, top)
            config |= {"shape": list(rows.values.shape), "bits": rows.bits, "top": top}
        case DenseTable():
            config["table"] = put_matrix(store, f"{name}.table", rows.table, dtype)
        case _:
            raise TypeError(f"a model file has no form for {type(rows).__name__}")
    return config


def get_rows(
    store: Store, name: str, config: dict[str, Any], count: int, codebook: FloatArray | None
) -> EmbeddingTable:
    rows: EmbeddingTable
    if config["kind"] == "full":
        rows = DenseTable(get_matrix(store, f"{name}.table", config["table"]))
    elif config["kind"] == "packed":
        rows = _get_packed(store, name, config)
    else:
        expect(codebook is not None, "there is no codebook")
        assert codebook is not None
        values, scales = get_stored(store, f"{name}.weights", config["weights"])
        packed = array(store, f"{name}.columns", np.uint8, None)
        columns: NDArray[Any] = packing.unpack_bits(
            packed, packing.bits_for(len(codebook)), values.size, column_type(len(codebook))
        )
        expect(not len(columns) or int(columns.max()) < len(codebook), "a column lies outside the codebook")
        rows = CodebookTable(columns.reshape(values.shape), values, codebook, scales)
    expect(len(rows) == count, f"{name} has the wrong number of rows")
    return rows


def _get_packed(store: Store, name: str, config: dict[str, Any]) -> QuantisedTable:
    (length, width), bits, top = (count(size) for size in config["shape"]), count(config["bits"]), config["top"]
    expect(width >= 1 and bits in packing.TABLE_BITS and 0 < top <= _LARGEST, f"the table of {name} is wrong")
    values = packing.unpack_bits(array(store, f"{name}.values", np.uint8, None), bits, length * width, np.uint8)
    scale = array(store, f"{name}.scale", np.uint8, (length,))
    return QuantisedTable(values.astype(np.uint8).reshape(length, width), packing.row_scales(scale, float(top)), bits)


def put_integers(store: Store, name: str, values: NDArray[np.integer]) -> dict[str, Any]:
    """Put integers from 0 on, each with as many bits as the largest needs."""
    bits = packing.bits_for(int(values.max(initial=0)) + 1)
    store[name] = packing.pack_bits(values, bits)
    return {"bits": bits}


def get_integers(store: Store, name: str, config: dict[str, Any], length: int) -> NDArray[np.integer]:
    bits = count(config["bits"])
    expect(1 <= bits <= 32, f"{name} has numbers that are too large")
    return packing.unpack_bits(array(store, name, np.uint8, None), bits, length, np.int64)


def put_pairs(store: Store, name: str, pairs: PackedHistories) -> None:
    store[f"{name}.low"], store[f"{name}.high"] = pairs.keys.packed


def get_pairs(store: Store, name: str, pairs: int, num_users: int, num_items: int) -> PackedHistories:
    low, high = (array(store, f"{name}.{part}", np.uint8, None) for part in ("low", "high"))
    expect(pairs <= 8 * high.nbytes, f"{name} has too many pairs")
    return PackedHistories.unpack(low, high, pairs, num_users, num_items)


def put_lists(store: Store, name: str, lists: ItemLists, bits: int) -> dict[str, Any]:
    """Put item lists: pairs as sorted keys, weights as levels of so many bits."""
    put_pairs(store, name, PackedHistories.of(lists.pairs))
    codes, levels = packing.quantise_levels(lists.weights, bits)
    bits = packing.bits_for(len(levels))
    store[f"{name}.weights"], store[f"{name}.levels"] = packing.pack_bits(codes, bits), levels
    return {"entries": lists.num_entries, "bits": bits, "levels": len(levels), "user_power": lists.user_power}


def get_lists(store: Store, name: str, config: dict[str, Any], num_items: int) -> ItemLists:
    entries, bits, power = count(config["entries"]), count(config["bits"]), config["user_power"]
    expect(1 <= bits <= 16 and 0 <= power <= 4, f"the weights of {name} are wrong")
    levels = finite(array(store, f"{name}.levels", np.float32, (count(config["levels"]),)))
    pairs = get_pairs(store, name, entries, num_items, num_items).all()
    narrow = np.uint8 if bits <= 8 else np.uint16
    codes: NDArray[Any] = packing.unpack_bits(array(store, f"{name}.weights", np.uint8, None), bits, entries, narrow)
    expect(int(codes.max(initial=0)) < max(len(levels), 1), f"a weight of {name} is out of range")
    return ItemLists(pairs, levels[codes], float(power))


def put_encoder(store: Store, name: str, encoder: FeatureEncoder, dtype: str) -> dict[str, Any]:
    """Put the map from features to vectors: its intercept, and those of its rows that are not zero."""
    intercept, matrix = encoder.mapping.intercept, encoder.mapping.matrix
    used = np.flatnonzero(matrix.any(axis=1))
    store[f"{name}.places"] = packing.pack_bits(used, packing.bits_for(len(matrix)))
    rows = put_matrix(store, f"{name}.rows", np.concatenate([intercept[None], matrix[used]]), dtype)
    return {"coder": encoder.coder.to_json(), "rows": rows}


def get_encoder(store: Store, name: str, config: dict[str, Any] | None, width: int) -> FeatureEncoder | None:
    if config is None:
        return None
    coder = FeatureCoder.from_json(config["coder"])
    rows = get_matrix(store, f"{name}.rows", config["rows"])
    expect(coder.width <= _MOST_FEATURES and rows.shape[1] == width, f"{name} do not lead to vectors of items")
    packed = array(store, f"{name}.places", np.uint8, None)
    used = packing.unpack_bits(packed, packing.bits_for(coder.width), len(rows) - 1)
    expect(bool(np.all(np.diff(used) > 0)) and int(used.max(initial=0)) < coder.width, f"{name} are out of order")
    expect(coder.width * width <= _MOST_MAP_ENTRIES, f"{name} are too many for vectors of this width")
    matrix = np.zeros((coder.width, width), dtype=np.float32)
    matrix[used] = rows[1:]
    return FeatureEncoder(coder, FeatureMap(matrix, rows[0]))


def put_ids(store: Store, name: str, ids: IdMap) -> dict[str, Any]:
    if ids.is_text:
        put_text(store, name, ids.values.tolist())
        return {"kind": "text"}
    first = int(ids.values[0]) if len(ids) else 0
    steps = np.diff(ids.values.astype(np.uint64))  # modulo 2^64: np.arange is of floats from 2^63 on
    if abs(first) < _LARGEST_FIRST_ID and bool(np.all(steps == 1)):
        return {"kind": "range", "first": first}
    store[f"{name}.values"] = packing.smallest_integers(np.asarray(ids.values, dtype=ids.values.dtype))
    return {"kind": "integers"}


def get_ids(store: Store, name: str, config: dict[str, Any], count: int, kind: str) -> IdMap:
    if config["kind"] == "text":
        return IdMap(np.array(get_text(store, name, count), dtype=object), kind)
    if config["kind"] == "range":
        first = config["first"]
        expect(type(first) is int and abs(first) < _LARGEST_FIRST_ID, "the first id is wrong")
        ends = packing.smallest_integers(np.array([first, first + count], dtype=np.int64))
        return IdMap(np.arange(first, first + count, dtype=ends.dtype), kind)
    values = store[f"{name}.values"]
    expect(values.dtype.kind in "iu" and values.shape == (count,), f"{name} has the wrong form")
    return IdMap(values.copy(), kind)  # a view would keep the whole file in memory


def put_text(store: Store, name: str, texts: list[str]) -> None:
    arrays = text_to_arrays(texts)
    store[f"{name}.text"] = arrays["text"]
    store[f"{name}.lengths"] = packing.smallest_integers(np.diff(arrays["offsets"]))


def get_text(store: Store, name: str, count: int) -> list[str]:
    text, lengths = array(store, f"{name}.text", np.uint8, None), store[f"{name}.lengths"]
    expect(lengths.dtype.kind == "u" and lengths.shape == (count,), f"{name} has the wrong form")
    offsets = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])
    expect(int(offsets[-1]) == len(text) and bool(np.all(np.diff(offsets) >= 0)), f"{name} has the wrong length")
    return text_from_arrays({"text": text, "offsets": offsets})


def array(store: Store, name: str, dtype: type[np.generic], shape: tuple[int, ...] | None) -> NDArray[Any]:
    array = store[name]
    fits = array.ndim == 1 if shape is None else array.shape == shape
    expect(array.dtype == dtype and fits, f"{name} has the wrong form")
    return array


def finite(values: NDArray[Any]) -> FloatArray:
    """Return numbers that are small enough that no sum of their products overflows: a score is always a number."""
    numbers: FloatArray = values.astype(np.float32, copy=values.dtype != np.float32)
    lowest, highest = (numbers.min(), numbers.max()) if numbers.size else (0, 0)
    expect(bool(lowest >= -_LARGEST and highest <= _LARGEST), "a number is not finite or too large")
    return numbers


def count(value: object) -> int:
    expect(type(value) is int and 0 <= value < 2**40, "a size is wrong")
    assert isinstance(value, int)
    return value


def expect(condition: bool, complaint: str) -> None:
    if not condition:
        raise ValueError(complaint)
