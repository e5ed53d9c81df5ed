# SPDX-License-Identifier: Apache-2.0
"""Make a Dataset of any DATA: a folder, a file, several files, an archive, a known name or a frame in memory."""

import glob
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from legcf.core.errors import UserError, python_arguments
from legcf.core.plugins import find_part
from legcf.core.progress import progress
from legcf.data.catalogue.archives import extract
from legcf.data.catalogue.cache import fetch, find_local, open_known, recognise
from legcf.data.catalogue.registry import REGISTRY, Entry, find_entry
from legcf.data.engines import ENGINES
from legcf.data.interactions import Dataset
from legcf.data.options import DEFAULTS, DataOptions
from legcf.data.preparing.pair_source import PairSource
from legcf.data.preparing.pipeline import build_in_memory
from legcf.data.preparing.prepared import is_prepared, open_prepared, prepare
from legcf.data.reading.compressed import plain_suffix
from legcf.data.reading.formats import FORMATS
from legcf.data.reading.frames import frame_of
from legcf.data.reading.lightgcn import open_folder, text_file
from legcf.data.reading.tables import open_files, open_frame, select_pairs

__all__ = ["DataOptions", "is_source", "load_data", "load_training_data", "prepare_on_cluster", "prepare_source"]

Location = str | Path | Sequence[str | Path]


@python_arguments
def load_data(data: Any, options: DataOptions = DEFAULTS) -> Dataset:
    """Read and split whatever holds interactions.

    Args:
        data: A LightGCN or prepared folder, a file, several files, a glob, an archive or a known name; a frame of
            polars, pandas or Arrow with a row for each pair; a scipy sparse matrix of users × items, whose ids are the
            numbers of its rows and columns and whose values are ratings; or a Dataset, which is returned as it is.
        options: How to read and split it.

    Returns:
        The dataset: train, validation and test over the same users and items.

    Raises:
        UserError: It cannot be read; the sentence names the file and the line or column.

    Example:
        ```python
        data = legcf.load_data("ratings.csv", legcf.DataOptions(min_rating=4))
        ```
    """
    if isinstance(data, Dataset):
        if options.model_fields_set:
            names = ", ".join(sorted(options.model_fields_set))
            raise UserError(f"A Dataset is read and split already: leave {names} out, or give the source itself.")
        return data
    several = isinstance(data, list | tuple) and bool(data) and all(isinstance(one, str | Path) for one in data)
    if not (several or isinstance(data, str | Path)):
        where = "Frame 'frame'"
        frame = select_pairs(frame_of(data), options, where)
        return build_in_memory(open_frame(frame, options, "frame", where), options)
    folder = _prepared_folder(data)
    if folder is not None:
        return open_prepared(folder, options)
    with _opened(data, options, quiet=True) as (pairs, filled):
        return build_in_memory(pairs, filled)


def load_training_data(data: Any, options: DataOptions = DEFAULTS) -> Dataset:
    """Load data as `load_data` does, and refuse what no model can be trained on."""
    dataset = load_data(data, options)
    if dataset.num_items < 2:
        kept = dataset.provenance.get("kept", {})
        rows = f" in {kept['rows']:,} rows" if kept.get("rows", 0) > 1 else ""
        raise UserError(
            f"{dataset.name} has only one item, {dataset.items.external([0])[0]!r}{rows}: there is nothing to choose "
            "from, so nothing to recommend; at least two items are needed."
        )
    return dataset


def prepare_source(source: Location, out: Path, options: DataOptions = DEFAULTS, quiet: bool = False) -> Dataset:
    """Read and split a source into a prepared folder, in bounded memory, and open it."""
    folder = _prepared_folder(source)
    if folder is not None:
        raise UserError(f"{folder} is prepared already: use it as it is, or prepare its source again.")
    with _opened(source, options, quiet) as (pairs, filled):
        return prepare(pairs, filled, out, quiet)


def prepare_on_cluster(
    source: Location, out: Path, options: DataOptions = DEFAULTS, scheduler: str | None = None, quiet: bool = False
) -> Dataset:
    """Prepare tables in files on Dask, with the workers of a scheduler or with some on this machine."""
    engine = find_part("engine", "dask", ENGINES)
    paths = _paths(source)
    if any(not path.is_file() or path.suffix.lower() == ".zip" for path in paths):
        raise UserError("--engine dask reads tables in files: name files or a pattern, or leave --engine out.")
    prepared: Dataset = engine.prepare(paths, options, out, scheduler, quiet)
    return prepared


def is_source(text: str) -> bool:
    """Return whether a text names data: a path that exists or looks like one, a pattern, or a known name."""
    return Path(text).exists() or glob.has_magic(text) or _looks_like_path(text) or text in REGISTRY


@contextmanager
def _opened(source: Location, options: DataOptions, quiet: bool) -> Iterator[tuple[PairSource, DataOptions]]:
    """Open a source; yield it, and the options with those that the registry has for it filled in."""
    with ExitStack() as stack:
        open_source, filled = _resolved(source, options, stack)
        with progress("Finding users and items", None, "steps", quiet):
            pairs = open_source()
        yield pairs, filled


def _resolved(source: Location, options: DataOptions, stack: ExitStack) -> tuple[Callable[[], PairSource], DataOptions]:
    """Return a function that opens the source, and the options to use."""
    paths = _paths(source)
    first = paths[0]
    if len(paths) > 1:
        return partial(open_files, paths, options), options
    if first.suffix.lower() == ".zip" and first.is_file():
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="legcf-archive-")))
        extract(first, folder)
        inside = _pairs_inside(folder, first)
        if inside.is_dir():
            return partial(open_folder, inside, options, first.stem), options
        return partial(open_files, [inside], options), options
    if first.is_dir():
        entry = recognise(first)
        filled = options if entry is None else _filled(entry, options)
        return partial(open_folder, first, filled, None if entry is None else entry.name), filled
    if first.exists() or not isinstance(source, str) or _looks_like_path(source):
        return partial(open_files, paths, options), options
    entry = find_entry(source)
    filled = _filled(entry, options)
    local = (find_local(entry) or fetch(entry)) if entry.downloads else None
    return partial(open_known, entry, local, filled), filled


def _prepared_folder(source: Location) -> Path | None:
    if not isinstance(source, str | Path):
        return None
    path = Path(source)
    if not path.exists() and str(source) in REGISTRY:
        path = find_local(REGISTRY[str(source)]) or path
    return path if is_prepared(path) else None


def _filled(entry: Entry, options: DataOptions) -> DataOptions:
    """Return the registry's options of a dataset, overridden by those that the user set."""
    return entry.options.model_copy(update=options.model_dump(exclude_unset=True))


def _looks_like_path(source: str) -> bool:
    return "/" in source or "\\" in source or plain_suffix(Path(source)) in FORMATS


def _paths(source: Location) -> list[Path]:
    if not isinstance(source, str | Path):
        paths = [path for one in source for path in _paths(one)]
        if not paths:
            raise UserError("No file was given.")
        return paths
    path = Path(source)
    if path.exists() or not glob.has_magic(str(source)):
        return [path]
    matches = sorted(Path(match) for match in glob.glob(str(source)))
    if not matches:
        raise UserError(f"No file matches {source}.")
    return matches


def _pairs_inside(folder: Path, archive: Path) -> Path:
    """Return the one thing in an unpacked archive that holds pairs: a LightGCN folder, or a table."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    folders = sorted({path.parent for path in files if text_file(path.parent, "train") is not None})
    tables = [path for path in files if plain_suffix(path) in FORMATS]
    named = [path for path in tables if path.name.split(".")[0] in ("ratings", "u", "interactions")]
    named = [path for path in named if plain_suffix(path) != ".item"]
    candidates = folders or named or tables
    if len(candidates) != 1:
        names = ", ".join(str(path.relative_to(folder)) for path in candidates[:5]) or "none"
        raise UserError(
            f"{archive} must hold one LightGCN folder or one table of pairs, but it holds {names}: unpack it."
        )
    return candidates[0]
