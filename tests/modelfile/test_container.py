# SPDX-License-Identifier: Apache-2.0
"""The file format: whatever is wrong with a file, the answer is one sentence."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from legcf.core.errors import UserError
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
        (17 * 2**20).to_bytes(8, "little") + b" " * 17 * 2**20,
    ],
    ids=["empty", "zip", "huge length", "no metadata", "list", "deep", "header above the cap"],
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


def test_columns_outside_the_codebook(model_file: Path, tmp_path: Path) -> None:
    arrays, metadata = read_container(model_file)
    columns = np.full_like(arrays["item_rows.columns"], 255)
    write_container(tmp_path / "lie", {**arrays, "item_rows.columns": columns}, metadata)
    with pytest.raises(UserError, match="outside the codebook"):
        ServedModel.load(tmp_path / "lie")
