# SPDX-License-Identifier: Apache-2.0
"""Write a trained model as one file, and report its size and its accuracy before and after."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.data.reading.item_table import NumberValues, TextValues, read_attributes
from legcf.device.page import write_folder, write_page
from legcf.export.accuracy import Compared, compared
from legcf.export.build import build, served_ranking
from legcf.export.options import ExportOptions
from legcf.export.vectors import without_lists, write_vectors
from legcf.modelfile.attributes import Attributes, Column, number_column, text_column
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import full_table_bytes

if TYPE_CHECKING:
    from legcf.training.run_folder import TrainedModel


@dataclass(frozen=True)
class ExportReport:
    """Report what was written.

    Attributes:
        file: The model file.
        bytes: Its size.
        parts: The bytes of each of its parts.
        full_table_bytes: The size of 128 numbers in float32 for each user and item, whatever the method's width.
        settings: Sizes, number format and users of the file.
        fold_in: How users are solved from their items, where they are not sums of them.
        accuracy: Recall and NDCG at 20 before and after, on validation and test; empty if they were not measured.
        unmeasured: Why accuracy was not measured, if it was asked for.
    """

    file: str
    bytes: int
    parts: dict[str, int]
    full_table_bytes: int
    settings: dict[str, Any]
    fold_in: dict[str, float]
    accuracy: Compared
    unmeasured: str | None = None


def export_model(
    trained: "TrainedModel",
    path: Path,
    options: ExportOptions | None = None,
    open_data: Callable[[], Dataset] | None = None,
) -> ExportReport:
    """Write `trained` as the model file `path`; as a page that holds it, where `path` ends in .html; or as `vectors`.

    `open_data` gives the data of the training: its validation pairs choose how users are folded in, and both held-out
    parts measure the file. Where it raises a UserError, the training pairs choose, and nothing is measured.
    """
    options = _for_pages(options or ExportOptions(), path).resolved(trained)
    dataset, obstacle = _opened(trained, open_data)
    if options.format == "vectors":
        return _export_vectors(trained, path, options, dataset, obstacle)
    attributes = None if options.items is None else read_item_attributes(trained, options)
    model = build(trained, options, None if dataset is None else dataset.validation)
    model = replace(model, attributes=attributes)
    settings = {**model.card["serving"], "dtype": model.dtype, "format": options.format, "users": options.users}
    settings["seed"] = options.seed
    accuracy: Compared = {}
    if options.evaluate and dataset is not None:
        served = served_ranking(model, dataset.train, options.quiet)
        accuracy = compared(dataset, trained.ranking, served, trained.card.get("metrics"))
        model.card["serving"]["accuracy"] = accuracy
        if not accuracy:
            obstacle = "the data of this run has no test or validation pairs"
    parts = _save(model, path, options)
    return ExportReport(
        file=str(path),
        bytes=sum(parts.values()),
        parts=parts,
        full_table_bytes=model.card["full_table_bytes"],
        settings=settings,
        fold_in=vars(model.fold_in),
        accuracy=accuracy,
        unmeasured=obstacle,
    )


def _export_vectors(
    trained: "TrainedModel", folder: Path, options: ExportOptions, dataset: Dataset | None, obstacle: str | None
) -> ExportReport:
    """Write ids and vectors into a folder, and measure what is kept of the accuracy without lists."""
    alone = without_lists(trained.ranking)
    accuracy: Compared = {}
    if options.evaluate and dataset is not None:
        accuracy = compared(dataset, trained.ranking, alone, trained.card.get("metrics"))
    parts = write_vectors(trained, folder, options)
    full = full_table_bytes(len(trained.users) + len(trained.items))
    settings = {"d": alone.items.shape[1], "format": options.format, "users": options.users}
    return ExportReport(str(folder), sum(parts.values()), parts, full, settings, {}, accuracy, obstacle)


def _for_pages(options: ExportOptions, path: Path) -> ExportOptions:
    """Leave users out of pages unless they are asked for: others read what stands in a page."""
    if options.format == "web" and _is_page(path):
        raise UserError(f"--format web writes a folder: give a name that does not end in {path.suffix}.")
    is_for_others = options.format == "web" or _is_page(path)
    return replace(options, users="none") if is_for_others and options.users is None else options


def _is_page(path: Path) -> bool:
    return path.suffix.lower() in (".html", ".htm")


def _save(model: ServedModel, path: Path, options: ExportOptions) -> dict[str, int]:
    """Write the model, by itself or in a page; return the bytes of each part."""
    if options.format != "web" and not _is_page(path):
        return model.save(path)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.legcf"
        parts = model.save(file)
        content = file.read_bytes()
    written = write_folder(content, path) if options.format == "web" else write_page(content, path)
    return {**parts, "page": written - len(content)}


def _opened(trained: "TrainedModel", open_data: Callable[[], Dataset] | None) -> tuple[Dataset | None, str | None]:
    """Return the data of the training, or why there is none to measure by."""
    metrics = trained.card.get("metrics", {})
    if "final" in metrics:
        test = (metrics.get("test") or {}).get("ndcg@20")
        chosen = "" if test is None else f"; the model that it was chosen as has a test ndcg@20 of {test:.4f}"
        return None, f"the model was trained on every pair, so none is left to measure it by{chosen}"
    try:
        return (None, "there is no data to measure it by") if open_data is None else (open_data(), None)
    except UserError as error:
        return None, str(error)


def read_item_attributes(trained: "TrainedModel", options: ExportOptions) -> Attributes:
    """Read the columns of the table `options.items` for the items of a model."""
    item_col = trained.card.get("config", {}).get("data", {}).get("options", {}).get("item_col")
    names = None if options.attributes is None else list(options.attributes)
    columns = read_attributes(options.items, trained.items, names, item_col)
    return Attributes({name: _column(values, len(trained.items)) for name, values in columns.items()})


def _column(values: TextValues | NumberValues, num_items: int) -> Column:
    if isinstance(values, TextValues):
        return text_column(values.items, values.values, num_items)
    return number_column(values)
