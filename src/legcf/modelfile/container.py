# SPDX-License-Identifier: Apache-2.0
"""Write and read the file around a served model: the safetensors layout, read with numpy alone, trusted with nothing.

    8 bytes   length of the header, little-endian; at most 1 MiB
    header    JSON: {"__metadata__": {"format", "version", "checksum", …}, name: {"dtype", "shape", "data_offsets"}}
    data      the arrays, back to back

The checksum is the SHA-256 of the whole file with the checksum's own 64 digits written as zeros, so that a flipped bit
anywhere, header included, is found before anything is decoded.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import NamedArrays
from legcf.core.errors import UserError
from legcf.core.files import open_regular, parse_json, written_whole

_FORMAT = "legcf-serving"
_VERSION = 2
_MAX_HEADER_BYTES = 2**20  # headers hold a few kilobytes; a length beyond this is damage or an attack
_MAX_DIMENSIONS = 2
_CHECKED_FIRST = 2**26  # bytes of data from which on the checksum is taken before they are kept in memory
_NO_CHECKSUM = "0" * 64
_DTYPES = {"U8": "<u1", "I8": "<i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8"}
_DTYPES |= {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}


def write_container(path: Path, arrays: NamedArrays, metadata: Mapping[str, str]) -> None:
    """Write arrays and metadata as one file, whole or not at all."""
    blocks = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    header: dict[str, Any] = {
        "__metadata__": {**metadata, "format": _FORMAT, "version": str(_VERSION), "checksum": _NO_CHECKSUM}
    }
    start = 0
    for name, block in blocks.items():
        end = start + block.nbytes
        header[name] = {"dtype": _NAMES[block.dtype], "shape": list(block.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":"))
    text += " " * (-len(text.encode()) % 8)  # the data starts on a multiple of eight, as safetensors readers like it
    encoded = text.encode()
    if len(encoded) > _MAX_HEADER_BYTES:
        raise UserError(f"{path} cannot be written: its settings and model card take more than 1 MiB.")
    digest = hashlib.sha256(len(encoded).to_bytes(8, "little") + encoded)
    for block in blocks.values():
        digest.update(block.data)
    encoded = encoded.replace(_checksum_field(_NO_CHECKSUM), _checksum_field(digest.hexdigest()), 1)
    with written_whole(path) as temporary, open(temporary, "wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for block in blocks.values():
            file.write(block.data)


def read_container(path: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """Return arrays and metadata of a file that `write_container` made; refuse anything else with one sentence."""
    with _opened(path) as file:
        return _read(path, file)


def check_header(path: Path) -> None:
    """Refuse, in little time and memory whatever its size, a file whose header does not fit it."""
    with _opened(path) as file:
        _read_header(path, file)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with open_regular(path) as file:
            yield file
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist.") from error
    except IsADirectoryError as error:
        raise UserError(f"{path} is a folder: give the model file that `legcf export` wrote.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error


def damaged(path: Path, reason: str) -> UserError:
    return UserError(f"{path} is damaged ({reason}): export the model again or copy the file once more.")


@dataclass(frozen=True)
class _Header:
    """Hold what stands before the data, checked against the size of the file; `views` are dtype, shape and start."""

    metadata: dict[str, str]
    views: dict[str, tuple[str, tuple[int, ...], int]]
    data_size: int
    hashed: bytes
    """What the checksum is taken of, up to the data."""


def _read_header(path: Path, file: BinaryIO) -> _Header:
    size = os.fstat(file.fileno()).st_size
    prefix = file.read(8)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or length < 2 or length > size - 8 or length > _MAX_HEADER_BYTES:
        raise _foreign(path)
    encoded = file.read(length)
    header, metadata = _parse_header(path, encoded)
    data_size = size - 8 - length
    views = _check_layout(path, header, data_size)
    own = _checksum_field(metadata.get("checksum", ""))
    return _Header(metadata, views, data_size, prefix + encoded.replace(own, _checksum_field(_NO_CHECKSUM), 1))


def _read(path: Path, file: BinaryIO) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    header = _read_header(path, file)
    if header.data_size > _CHECKED_FIRST:
        start, digest = file.tell(), hashlib.sha256(header.hashed)
        while piece := file.read(2**20):
            digest.update(piece)
        _compare(path, header, digest.hexdigest())
        file.seek(start)
    data = file.read(header.data_size)
    if len(data) != header.data_size:
        raise damaged(path, "it is cut short")
    digest = hashlib.sha256(header.hashed)
    digest.update(data)
    _compare(path, header, digest.hexdigest())
    arrays = {
        name: np.frombuffer(data, dtype=dtype, count=math.prod(shape), offset=start).reshape(shape)
        for name, (dtype, shape, start) in header.views.items()
    }
    return arrays, header.metadata


def _compare(path: Path, header: _Header, checksum: str) -> None:
    if header.metadata.get("checksum") != checksum:
        raise damaged(path, "its checksum does not match")


def _parse_header(path: Path, encoded: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    try:
        header = parse_json(encoded.decode("utf-8"))
    except ValueError as error:
        raise _foreign(path) from error
    metadata = header.pop("__metadata__", None) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != _FORMAT:
        raise _foreign(path)
    if metadata.get("version") != str(_VERSION):
        raise UserError(
            f"{path} has format version {metadata.get('version')!r} and this legcf reads version {_VERSION}: "
            "export the model again, or install the legcf that wrote it."
        )
    if not all(isinstance(value, str) for value in metadata.values()):
        raise damaged(path, "its metadata is not text")
    return header, metadata


def _check_layout(path: Path, header: dict[str, Any], data_size: int) -> dict[str, tuple[str, tuple[int, ...], int]]:
    """Check that every array lies inside the data, has the bytes its shape needs, and overlaps no other."""
    views: dict[str, tuple[str, tuple[int, ...], int]] = {}
    spans: list[tuple[int, int]] = []
    for name, entry in header.items():
        try:
            dtype, shape, (start, end) = _DTYPES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
            numbers = [*shape, start, end]
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(path, f"the entry of {name!r} is not understood") from error
        if not 1 <= len(shape) <= _MAX_DIMENSIONS:
            raise damaged(path, f"the entry of {name!r} is neither a list of numbers nor a matrix")
        if not all(type(number) is int and 0 <= number <= data_size for number in numbers):
            raise damaged(path, f"the entry of {name!r} points outside the file")
        if end - start != math.prod(shape) * np.dtype(dtype).itemsize:
            raise damaged(path, f"the size of {name!r} does not fit its shape")
        views[name] = (dtype, shape, start)
        spans.append((start, end))
    position = 0
    for start, end in sorted(spans):
        if start != position:
            raise damaged(path, "its arrays overlap or leave holes")
        position = end
    if position != data_size:
        raise damaged(path, "it is cut short or has something appended")
    return views


def _checksum_field(value: str) -> bytes:
    return b'"checksum":' + json.dumps(value).encode()


def _foreign(path: Path) -> UserError:
    return UserError(f"{path} is not a legcf model file: give a file that `legcf export` wrote.")
