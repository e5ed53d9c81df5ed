# SPDX-License-Identifier: Apache-2.0
"""From a trained model to a serving model."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from legcf.core.errors import UserError
from legcf.core.progress import progress
from legcf.data.ids import IdMap
from legcf.data.interactions import Interactions
from legcf.data.reading.attributes import NumberValues, TextValues
from legcf.evaluation import evaluate
from legcf.export.calibrate import calibrate_items, calibrate_users
from legcf.export.coding import code_sides
from legcf.features.cold_items import ColdItemEncoder
from legcf.modelfile.attributes import Attributes, number_column, text_column
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import FoldIn, ServedModel
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.neighbours import Neighbours
from legcf.ranking.precision import keep_codes, rounded
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable, EmbeddingTable, QuantisedTable
from legcf.scoring.foldin import user_maker

DEFAULT_CODEBOOK, DEFAULT_TERMS = 500, 4
_CURVE_POINTS = 100


class Trained(Protocol):
    """What is needed of a trained model; `legcf.training.run_folder.TrainedModel` has it."""

    @property
    def users(self) -> IdMap: ...

    @property
    def items(self) -> IdMap: ...

    @property
    def titles(self) -> list[str] | None: ...

    @property
    def ranking(self) -> Ranking:
        """As it was tested."""

    @property
    def known(self) -> Interactions:
        """All that users are known to have."""

    @property
    def encoder(self) -> ColdItemEncoder | None:
        """How items are placed by what is known of them, among the ranking's vectors."""

    @property
    def card(self) -> dict[str, Any]:
        """What there is to know about the model: how it was made, its size and its accuracy."""


def build(
    trained: Trained,
    t: int | None = None,
    c: int | None = None,
    dtype: str = "int8",
    form: str = "coded",
    keep_users: bool = True,
    keep_history: bool = True,
    keep_titles: bool = True,
    keep_neighbours: bool = True,
    attributes: Attributes | None = None,
    validation: Interactions | None = None,
    fold_in: tuple[FoldIn, FoldIn] | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> ServedModel:
    """Code the final vectors (or keep them, `form="full"`) with all that serving needs.

    `validation` pairs, when there are any, choose how users are folded in; the training pairs alone do otherwise.
    `fold_in` gives the settings for users and items instead of choosing them. Users that are nothing but their
    histories have no vectors in the file. What neighbours add to scores is kept where the model has it and the
    histories, from which it is computed, are kept.
    """
    ranking = trained.ranking
    if not (np.isfinite(ranking.users).all() and np.isfinite(ranking.items).all()):
        raise UserError("The model's vectors hold NaN or infinite values, so it cannot be served: train it again.")
    keep_users = keep_users and ranking.pooling is None
    half = "float32" if dtype == "float32" else "float16"  # of what is stored once per item: a byte would be too coarse
    rng = np.random.default_rng(seed)
    user_rows, item_rows = _rows(ranking, form, c, t, dtype, keep_users, rng, quiet)
    term = ranking.term if isinstance(ranking.term, ItemLists) or (keep_neighbours and keep_history) else None
    served = Ranking(
        user_rows.vectors(slice(None)),
        item_rows.vectors(slice(None)),
        ranking.histories,
        bias=None if ranking.bias is None else rounded(ranking.bias, half),
        term=term,
        popularity=ranking.popularity,
    )
    if fold_in is None:
        users = FoldIn() if ranking.pooling is not None else calibrate_users(item_rows, served, validation, rng, quiet)
        fold_in = users, calibrate_items(user_rows, served, rng) if keep_users else FoldIn()
    encoder = trained.encoder
    scale = term.scale if isinstance(term, Neighbours) else 0.0
    return ServedModel(
        items=trained.items,
        item_rows=item_rows,
        popularity=ranking.popularity,
        users=trained.users if keep_users or keep_history else None,
        user_rows=user_rows if keep_users else None,
        item_bias=served.bias,
        titles=trained.titles if keep_titles else None,
        history=PackedHistories.of(trained.known) if keep_history else None,
        pooling=ranking.pooling,
        fold_in=fold_in[0],
        fold_in_item=fold_in[1],
        card=_card(trained, item_rows, scale),
        dtype=dtype,
        lists=term if isinstance(term, ItemLists) else None,
        neighbour_scale=scale,
        attributes=attributes,
        encoder=None if encoder is None else encoder.moved(ranking.items, served.items),
    )


def _rows(
    ranking: Ranking,
    form: str,
    c: int | None,
    t: int | None,
    dtype: str,
    keep_users: bool,
    rng: np.random.Generator,
    quiet: bool,
) -> tuple[EmbeddingTable, EmbeddingTable]:
    """Return users and items as the file will hold them."""
    everyone = DenseTable(ranking.users)
    if form == "full":
        return DenseTable(rounded(ranking.users, dtype)), DenseTable(rounded(ranking.items, dtype))
    if c is None and not keep_users and (t is None or t >= (ranking.codes.items.per_entity if ranking.codes else 0)):
        # Nothing is lost by keeping what the items are made of already; users are made of their items.
        if ranking.rows is not None and not isinstance(ranking.rows, CodebookTable):
            return everyone, ranking.rows
        if ranking.codes is not None:
            return everyone, keep_codes(ranking.codes, dtype)
    c = c if c is not None else _codebook_size(ranking)
    terms = min(DEFAULT_TERMS, c) if t is None else t
    return code_sides(ranking.users, ranking.items, c, terms, dtype, rng, quiet)


def item_attributes(columns: Mapping[str, TextValues | NumberValues], num_items: int) -> Attributes:
    """From a table's columns to those of a file."""
    return Attributes(
        {
            name: text_column(values.items, values.values, num_items)
            if isinstance(values, TextValues)
            else number_column(values)
            for name, values in columns.items()
        }
    )


def served_ranking(model: ServedModel, train: Interactions, quiet: bool = False) -> Ranking:
    """What a client sees of the served model when users have the histories of `train`."""
    if model.user_rows is not None:
        users = model.user_rows.vectors(slice(None))
    else:
        with progress("Making users of their items", train.num_users, "users", quiet) as task:
            users = user_maker(model).vectors(train, task)
    scale = model.neighbour_scale
    return Ranking(
        users,
        model.item_rows.vectors(slice(None)),
        train,
        bias=model.item_bias,
        term=Neighbours(train, train.transposed(), scale) if scale else model.lists,
        popularity=model.popularity,
    )


def accuracy(served: Ranking, truth: Interactions) -> dict[str, float]:
    """Recall and NDCG at 20."""
    return evaluate(served, truth, (20,), metrics=("recall", "ndcg"))


def _codebook_size(ranking: Ranking) -> int:
    if ranking.meta is not None:
        return len(ranking.meta)
    return min(DEFAULT_CODEBOOK, ranking.num_users + ranking.num_items)


def _card(trained: Trained, rows: EmbeddingTable, neighbour_scale: float) -> dict[str, Any]:
    """What the page shows of the training; the curve thinned out so that the file stays small."""
    entities = len(trained.users) + len(trained.items)
    card = {key: value for key, value in trained.card.items() if key != "config"}
    curve = [_plain(line) for line in card.get("curve") or [] if "search" not in line]
    card["curve"] = curve[:: max(1, -(-len(curve) // _CURVE_POINTS))]
    card["full_table_bytes"] = entities * trained.ranking.items.shape[1] * 4
    card["serving"] = {"d": rows.width, "entities": entities}
    if isinstance(rows, CodebookTable):
        card["serving"] |= {"c": len(rows.codebook), "t": rows.columns.shape[1]}
    if isinstance(rows, QuantisedTable):
        card["serving"]["bits"] = rows.bits
    if isinstance(trained.ranking.term, ItemLists):
        card["serving"]["list_entries"] = trained.ranking.term.num_entries
    if neighbour_scale:
        card["serving"]["neighbour_scale"] = neighbour_scale
    return card


def _plain(line: dict[str, Any]) -> dict[str, Any]:
    """An epoch's line with short numbers."""
    return {key: float(f"{value:.5g}") if isinstance(value, float) else value for key, value in line.items()}
