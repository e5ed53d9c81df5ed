# SPDX-License-Identifier: Apache-2.0
"""The file format: whatever is wrong with a file, the answer is one sentence."""

import hashlib
import json
import math
import os
import random
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.modelfile.codecs import get_encoder
from legcf.modelfile.container import read_container, write_container
from legcf.modelfile.served_model import ServedModel


def test_round_trip_and_safetensors_reads_it(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    path = tmp_path / "a.legcf"
    arrays = {
        "b": np.arange(6, dtype=np.int16).reshape(2, 3),
        "a": np.zeros((0, 4), np.float16),
        "c": np.float32([1.5]),
    }
    write_container(path, arrays, {"config": "ü"})
    again, metadata = read_container(path)
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array)
        np.testing.assert_array_equal(load_file(path)[name], array)
    assert metadata["config"] == "ü"


def sparse_file(path: Path, size: int) -> Path:
    """A file of so many bytes of data, all of them zero and none on disk, whose header fits it and not its checksum."""
    entry = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    metadata = {"format": "legcf-serving", "version": "2", "checksum": "0" * 64}
    header = json.dumps({"__metadata__": metadata, "a": entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + size)
    return path


def test_a_large_file_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = sparse_file(tmp_path / "sparse", 2**28)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="its checksum does not match"):
            read_container(path)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_every_cut_is_refused(model_file: Path, tmp_path: Path) -> None:
    content = model_file.read_bytes()
    cut = tmp_path / "cut"
    for length in [0, 1, 7, 8, 9, 100, *random.Random(0).sample(range(len(content)), 25)]:
        cut.write_bytes(content[:length])
        with pytest.raises(UserError):
            ServedModel.load(cut)


def test_every_flipped_bit_is_refused(model_file: Path, tmp_path: Path) -> None:
    content = bytearray(model_file.read_bytes())
    flipped = tmp_path / "flipped"
    for position in [*range(12), *random.Random(1).sample(range(len(content)), 120)]:
        content[position] ^= 1 << (position % 8)
        flipped.write_bytes(content)
        with pytest.raises(UserError):
            ServedModel.load(flipped)
        content[position] ^= 1 << (position % 8)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 a zip file that is long enough",
        (2**62).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (40_000).to_bytes(8, "little") + b"[" * 40_000,
        (200_000).to_bytes(8, "little") + b"[" * 200_000,
        (6002).to_bytes(8, "little") + b"[" + b"9" * 6000 + b"]",
        (2 * 2**20).to_bytes(8, "little") + b" " * 2 * 2**20,
    ],
    ids=["empty", "zip", "huge length", "no metadata", "list", "deep", "deeper", "digits", "header above the cap"],
)
def test_foreign_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(UserError, match="is not a legcf model file"):
        ServedModel.load(path)


def test_missing_and_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        ServedModel.load(tmp_path / "nowhere")
    with pytest.raises(UserError, match="is a folder"):
        ServedModel.load(tmp_path)


def test_other_version(model_file: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    newer.write_bytes(model_file.read_bytes().replace(b'"version":"2"', b'"version":"9"', 1))
    with pytest.raises(UserError, match="format version '9'"):
        ServedModel.load(newer)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("items", 10**9),
        ("items", -1),
        ("users", 2**39),
        ("history", 10**12),
        ("codebook", {"shape": [2**30, 2**30]}),
        ("codebook", {"shape": [12, 8], "top": 1e300}),
        ("codebook", None),
        ("item_rows", {"kind": "full", "table": {"shape": [1, 0]}}),
        ("item_ids", {"kind": "range", "first": 2**70}),
        ("fold_in", {"user": {"unobserved": "x"}, "item": {}}),
        ("fold_in", {"user": {"surprise": 1}, "item": {}}),
        ("dtype", "float999"),
    ],
)
def test_lies_with_a_right_checksum(key: str, value: object, model_file: Path, tmp_path: Path) -> None:
    """Someone who can compute a checksum still cannot make the reader crash or grow."""
    arrays, metadata = read_container(model_file)
    config = json.loads(metadata["config"])
    config[key] = value
    path = tmp_path / "lie"
    write_container(path, arrays, {**metadata, "config": json.dumps(config)})
    with pytest.raises(UserError):
        ServedModel.load(path)


def write_header(path: Path, header: dict[str, object], data: bytes = b"") -> None:
    """A file with a right checksum, whatever its header says."""
    blank = {"__metadata__": {"format": "legcf-serving", "version": "2", "checksum": "0" * 64}, **header}
    encoded = json.dumps(blank, separators=(",", ":")).encode()
    digest = hashlib.sha256(len(encoded).to_bytes(8, "little") + encoded + data).hexdigest()
    encoded = encoded.replace(b"0" * 64, digest.encode(), 1)
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)


@pytest.mark.parametrize("shape", [[0] * 100, [8, 8, 8, 8, 0], [8, 1, 1], []], ids=str)
def test_shapes_of_more_than_two_sizes(shape: list[int], tmp_path: Path) -> None:
    size = math.prod(shape)
    write_header(tmp_path / "a", {"a": {"dtype": "U8", "shape": shape, "data_offsets": [0, size]}}, bytes(size))
    with pytest.raises(UserError, match="the entry of 'a'"):
        read_container(tmp_path / "a")


@pytest.mark.parametrize("text", ["[" * 50_000, '{"items":' + "9" * 5000 + "}"], ids=["deep", "digits"])
@pytest.mark.parametrize("part", ["config", "card"])
def test_odd_json_inside(part: str, text: str, model_file: Path, tmp_path: Path) -> None:
    arrays, metadata = read_container(model_file)
    write_container(tmp_path / "lie", arrays, {**metadata, part: text})
    with pytest.raises(UserError, match="not consistent"):
        ServedModel.load(tmp_path / "lie")


def peak_bytes(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_header_of_braces_takes_little_memory(tmp_path: Path) -> None:
    """Of fifteen megabytes of them, a third of a gigabyte of objects was made."""
    encoded = b"[" + b"{}," * (5 * 2**20) + b"{}]"
    (tmp_path / "a").write_bytes(len(encoded).to_bytes(8, "little") + encoded)

    def load() -> None:
        with pytest.raises(UserError, match="is not a legcf model file"):
            read_container(tmp_path / "a")

    assert peak_bytes(load) < 2**20


def test_users_by_the_million_take_memory_by_the_bytes_of_the_file(model: ServedModel, tmp_path: Path) -> None:
    """Ids that count up take no bytes of a file: what they take in memory is still in proportion to it."""
    size = 10**6
    padded = replace(model, titles=["x" * size, *(model.titles or [])[1:]])
    padded.save(tmp_path / "padded")
    arrays, metadata = read_container(tmp_path / "padded")
    config = json.loads(metadata["config"])
    for users in (8 * size, 2 * size):
        promise = {**config, "users": users, "user_ids": {"kind": "range", "first": 0}}
        for part in ("user_rows", "history"):
            promise.pop(part, None)
        write_container(tmp_path / "lie", arrays, {**metadata, "config": json.dumps(promise)})

        def load() -> None:
            with suppress(UserError):
                ids = ServedModel.load(tmp_path / "lie").users
                assert ids is not None
                assert ids.find("12345") == 12345

        assert peak_bytes(load) < 40 * size, users


def test_features_of_a_wide_vector_are_refused() -> None:
    """A map from 65,536 features to vectors of 4,096 numbers is a gigabyte, of which a file may hold a row."""
    store = {"features.rows.values": np.zeros((1, 4096), np.float16), "features.places": np.zeros(0, np.uint8)}
    coder = [{"name": "a", "kind": "category", "width": 2**16, "edges": []}]
    with pytest.raises(ValueError, match="features are too many"):
        get_encoder(store, "features", {"coder": coder, "rows": {"shape": [1, 4096]}}, 4096)


def test_columns_outside_the_codebook(model_file: Path, tmp_path: Path) -> None:
    arrays, metadata = read_container(model_file)
    columns = np.full_like(arrays["item_rows.columns"], 255)
    write_container(tmp_path / "lie", {**arrays, "item_rows.columns": columns}, metadata)
    with pytest.raises(UserError, match="outside the codebook"):
        ServedModel.load(tmp_path / "lie")
