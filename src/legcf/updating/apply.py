# SPDX-License-Identifier: Apache-2.0
"""Read what is new, from tables and from a server's event log, update a trained model with it, and write that."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from legcf.core.columns import FrameColumns
from legcf.core.config import validated
from legcf.core.errors import UserError
from legcf.core.files import folder_held, folder_written_whole, write_json
from legcf.data.interactions import Dataset
from legcf.data.options import DataOptions
from legcf.data.reading.item_table import read_features
from legcf.data.source import load_data
from legcf.features.encoder import FeatureEncoder
from legcf.features.entity_features import EntityFeatures
from legcf.features.fitting import coded, fitted_coder
from legcf.features.user_mapping import fit_user_map
from legcf.training.run_folder import TrainedModel, save_model
from legcf.updating.cold import ItemTable
from legcf.updating.events import new_events
from legcf.updating.update import update

_READ_ALIKE = {
    "user_col", "item_col", "rating_col", "time_col", "date_format", "header", "delimiter", "min_rating", "weight_col",
    "half_life", "event_col", "event_weights", "dislike_below", "missing",
}  # fmt: skip


def apply(
    trained: TrainedModel,
    data: Any,
    item_features: Any,
    events: str | Path | None,
    options: DataOptions,
    threshold: float,
    open_data: Callable[[], Dataset] | None,
) -> TrainedModel:
    """Return `trained` updated with all that is new: interactions, a table with a row per item, a server's event log.

    What `options` leave open is read as for the training. Items are solved again of whose pairs the share `threshold`
    is new. `open_data` gives the data of the first training, to measure by; where it raises a UserError, nothing is
    measured.
    """
    if not 0 <= threshold <= 1:
        raise UserError(f"threshold = {threshold} is not possible: it is a share, from 0 to 1.")
    if data is None and item_features is None and events is None:
        raise UserError("There is nothing to update with: give new interactions, item_features, or events.")
    if not isinstance(data, Dataset):
        before: Mapping[str, Any] = trained.config.data.get("options", {})
        alike = {key: value for key, value in before.items() if key in _READ_ALIKE}
        options = validated(DataOptions, {**alike, **options.model_dump(include=options.model_fields_set)}, "data")
    reported = None if events is None else new_events(events, trained)
    if reported is not None and data is None and item_features is None and reported.is_empty:
        raise UserError(f"{events} holds no event that the model does not know already: there is nothing to do.")
    pairs = None if data is None else load_data(data, options)
    about = None if item_features is None else ItemTable(*read_features(item_features, options.item_col))
    first = None
    if open_data is not None:
        with suppress(UserError):  # its source is gone: nothing to measure by, but nothing that is needed
            first = open_data()
    if pairs is not None or about is not None:
        is_last = reported is None or reported.is_empty  # accuracy is measured once, where all is in
        trained = update(trained, pairs, first if is_last else None, threshold, about)
    if reported is not None and not reported.is_empty:
        columns = {"user_col": FrameColumns.USER, "item_col": FrameColumns.ITEM, "time_col": FrameColumns.TIME}
        weighs = trained.ranking.histories.weights is not None and FrameColumns.WEIGHT in reported.pairs.columns
        reading = DataOptions(
            **columns, half_life=options.half_life, weight_col=FrameColumns.WEIGHT if weighs else None
        )
        pairs = None if reported.pairs.is_empty() else load_data(reported.pairs, reading)
        trained = update(trained, pairs, first, threshold, reported.about, reported.changes)
        reported.mark.to_card(trained.metrics)
    return trained


def with_item_features(trained: TrainedModel, dataset: Dataset, table: Any, item_col: str | None) -> TrainedModel:
    """Return a model fresh from training that knows the items of a table, those that nobody has yet among them."""
    grown = update(trained, None, dataset, about=ItemTable(*read_features(table, item_col)))
    return replace(grown, metrics={**trained.metrics, **grown.metrics, "seconds": trained.metrics["seconds"]})


def with_user_features(trained: TrainedModel, table: Any, user_col: str | None) -> TrainedModel:
    """Return the model with a map from the features of a table of users, for users of whom no item is known.

    Its metrics say under `user_features` how well the map does for users whom it has not seen.
    """
    ranking = trained.ranking
    if ranking.filter is not None:
        raise UserError(
            f"{trained.config.method.name} ranks by histories alone, so features of users lead nowhere in it."
        )
    users, rows = read_features(table, user_col, "user")
    coder, positions = fitted_coder(rows), trained.users.find_all(users)
    known = np.flatnonzero(positions >= 0)
    if not len(known):
        (mine,), (theirs,) = trained.users.external([0]), users.external([0])
        raise UserError(
            f"No user of the features is in the interactions: ids are like {theirs!r} here, {mine!r} there."
        )
    features = EntityFeatures(coder, coded(coder, rows[known])).renumbered(positions[known], len(trained.users))
    mapping, facts = fit_user_map(features.rows, coder.widths, ranking.items, ranking.bias, ranking.histories)
    metrics = {**trained.metrics, "user_features": facts}
    return replace(trained, user_encoder=FeatureEncoder(coder, mapping), metrics=metrics)


def write_run(folder: Path, trained: TrainedModel) -> None:
    """Write the files of a training but for its checkpoint, and the model as it was last trained in a folder inside."""
    with folder_held(folder), folder_written_whole(folder) as temporary:
        save_model(temporary, trained)
        content = {**trained.config.to_json(), "content_hash": trained.metrics["content_hash"]}
        write_json(temporary / "config.json", content)
        write_json(temporary / "metrics.json", trained.metrics)
        lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in trained.curve)
        (temporary / "metrics.jsonl").write_text(lines, encoding="utf-8")
