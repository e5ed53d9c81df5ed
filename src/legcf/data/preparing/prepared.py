# SPDX-License-Identifier: Apache-2.0
"""Write and open prepared datasets: folders of plain arrays, memory-mapped, with everything that a run needs.

`manifest.json` is written last and the folder is renamed when it is whole, so a folder with a manifest is complete.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import NPY_ERRORS
from legcf.core.errors import UserError
from legcf.core.files import folder_written_whole, read_json, write_json
from legcf.data.ids import IdMap, text_from_arrays, text_to_arrays
from legcf.data.interactions import Dataset, Interactions
from legcf.data.options import DataOptions
from legcf.data.preparing.blocks import Block
from legcf.data.preparing.pair_source import PairSource
from legcf.data.preparing.pipeline import Built, PartWriter, build, provenance
from legcf.data.preparing.splits import PARTS

FORMAT, VERSION = "legcf-prepared-dataset", 1
_MANIFEST = "manifest.json"
# Smaller arrays are simply read.
_MAP_BYTES = 1 << 20
_FEW_PAIRS = 10_000_000  # whose hash takes less than a second


def is_prepared(path: Path) -> bool:
    return (path / _MANIFEST).is_file()


def prepare(source: PairSource, options: DataOptions, out: Path, quiet: bool = False) -> Dataset:
    """Read, split and write a source; a prepared folder at `out` is replaced once the new one is complete."""
    return write_prepared(out, options, lambda folder, parts: (source, build(source, options, parts, folder, quiet)))


def write_prepared(
    out: Path, options: DataOptions, build_parts: Callable[[Path, Sequence[PartWriter]], tuple[PairSource, Built]]
) -> Dataset:
    """Write a prepared folder: `build_parts` fills the parts, and may use the folder for temporary files."""
    if out.exists() and not is_prepared(out) and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not a prepared dataset: choose another place, nothing was written.")
    if options.weighs or options.has_dislikes or options.repeat == "allow":
        raise UserError(
            "A prepared folder keeps no weights, dislikes and repeats: train on the table itself with `--weight-col`"
            " and the like."
        )
    with folder_written_whole(out) as folder:
        parts = [_PartFiles(folder, part) for part in PARTS]
        source, built = build_parts(folder, parts)
        for part in parts:
            part.close()
        _save(folder, "users", built.users.to_arrays())
        _save(folder, "items", built.items.to_arrays())
        if built.titles is not None:
            _save(folder, "titles", text_to_arrays(built.titles))
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "name": source.name,
            "protocol": built.protocol,
            "users": len(built.users),
            "items": len(built.items),
            "parts": {part.name: part.num_pairs for part in parts},
            "text_ids": {"users": built.users.is_text, "items": built.items.is_text},
            "titles": built.titles is not None,
            "provenance": provenance(source, options, built),
        }
        # The hash is taken of what was written, so that it vouches for the files.
        content_hash = _assemble(folder, manifest).content_hash
        write_json(folder / _MANIFEST, {**manifest, "content_hash": content_hash})
    return open_prepared(out)


def open_prepared(folder: Path, options: DataOptions | None = None) -> Dataset:
    """Open a prepared folder. `options` must not ask for something else than what was prepared."""
    manifest = read_json(folder / _MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise UserError(f"{folder / _MANIFEST} is not the manifest of a prepared dataset.")
    if manifest.get("version") != VERSION:
        raise UserError(
            f"{folder} was prepared in version {manifest.get('version')} of the format, and this legcf reads version "
            f"{VERSION}: prepare it again."
        )
    try:
        dataset = _assemble(folder, manifest)
        recorded, kept = manifest["provenance"]["options"], manifest["provenance"].get("kept", {})
        if not isinstance(recorded, dict) or not all(isinstance(kept[key], int) for key in kept if key != "times"):
            raise ValueError("what was kept is not written in numbers")
        # Of many pairs the recorded hash stands in for hashing them again at every start; `verify` does that.
        if dataset.train.num_pairs <= _FEW_PAIRS and dataset.content_hash != manifest["content_hash"]:
            raise ValueError("pairs or ids are not those that were prepared")
        vars(dataset)["content_hash"] = str(manifest["content_hash"])
    except (*NPY_ERRORS, AttributeError) as error:
        raise UserError(f"{folder} is damaged ({' '.join(str(error).split())[:200]}): prepare it again.") from error
    asked = {} if options is None else options.model_dump(exclude_defaults=True)
    for name, value in asked.items():
        if recorded.get(name) != value:
            raise UserError(
                f"{folder} was prepared with {name}={recorded.get(name)}, but {name}={value} is asked for: "
                "prepare the source again with the new options."
            )
    return dataset


def verify(dataset: Dataset) -> bool:
    """Return whether the pairs and ids still have the recorded hash."""
    return replace(dataset).content_hash == dataset.content_hash


class _PartFiles:
    """Write the CSR files of one part; items are appended, so a part may be larger than memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.num_pairs = 0
        self._folder = folder
        self._degrees: list[NDArray[np.int64]] = [np.zeros(1, dtype=np.int64)]
        self._file = open(folder / f"{name}.items.npy", "wb")  # noqa: SIM115 (closed by `close`)
        self._write_header()

    def append(self, pairs: Block) -> None:
        self._degrees.append(pairs.degrees)
        self._file.write(np.ascontiguousarray(pairs.items, dtype="<i4").data)
        self.num_pairs += len(pairs.items)

    def close(self) -> None:
        # numpy pads a header so that its length does not depend on the number of rows.
        self._file.seek(0)
        self._write_header()
        self._file.close()
        np.save(self._folder / f"{self.name}.indptr.npy", np.cumsum(np.concatenate(self._degrees)).astype("<i8"))

    def _write_header(self) -> None:
        header = {"descr": "<i4", "fortran_order": False, "shape": (self.num_pairs,)}
        np.lib.format.write_array_header_1_0(self._file, header)


def _save(folder: Path, prefix: str, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    for name, array in arrays.items():
        np.save(folder / f"{prefix}.{name}.npy", array.astype(array.dtype.newbyteorder("<")))


def _assemble(folder: Path, manifest: Mapping[str, Any]) -> Dataset:
    num_users, num_items = int(manifest["users"]), int(manifest["items"])
    train, validation, test = (_part(folder, part, num_users, num_items, manifest["parts"][part]) for part in PARTS)
    users = IdMap.from_arrays(_arrays(folder, "users", manifest["text_ids"]["users"]), "user")
    items = IdMap.from_arrays(_arrays(folder, "items", manifest["text_ids"]["items"]), "item")
    if len(users) != num_users or len(items) != num_items:
        raise ValueError("the numbers of ids are not those of the manifest")
    titles = text_from_arrays(_arrays(folder, "titles", True)) if manifest["titles"] else None
    return Dataset(
        manifest["name"], manifest["protocol"], users, items, train, validation, test, titles, manifest["provenance"]
    )


def _part(folder: Path, part: str, num_users: int, num_items: int, num_pairs: int) -> Interactions:
    indptr, items = _load(folder / f"{part}.indptr.npy"), _load(folder / f"{part}.items.npy")
    if indptr.shape != (num_users + 1,) or items.shape != (num_pairs,) or int(indptr[-1]) != num_pairs:
        raise ValueError(f"the {part} part does not have the size that the manifest says")
    if indptr.dtype != np.int64:
        raise ValueError(f"the {part} part has offsets of another type")
    return Interactions(indptr, items, num_items).checked(part)


def _arrays(folder: Path, prefix: str, is_text: bool) -> dict[str, NDArray[Any]]:
    names = ("text", "offsets") if is_text else ("values",)
    return {name: _load(folder / f"{prefix}.{name}.npy") for name in names}


def _load(path: Path) -> NDArray[Any]:
    # Copy-on-write: nobody can change the file, yet the array need not be read-only, which torch would complain about.
    mapped = path.stat().st_size > _MAP_BYTES
    array: NDArray[Any] = np.load(path, mmap_mode="c" if mapped else None, allow_pickle=False)
    return array
