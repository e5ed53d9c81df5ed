# SPDX-License-Identifier: Apache-2.0
"""Make the model that a file holds from a trained one."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from legcf.assignment.dictionary import balance, learn
from legcf.assignment.matching_pursuit import encode
from legcf.core.arrays import FloatArray
from legcf.core.errors import UserError
from legcf.core.progress import progress
from legcf.data.interactions import Dataset, Interactions
from legcf.export.calibrate import calibrated
from legcf.export.compress.sizes import DEFAULT_C, DEFAULT_T, Sizes
from legcf.export.options import ExportOptions
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.precision import column_type, keep_codes, rounded
from legcf.ranking.ranking import Ranking
from legcf.ranking.recency import recent
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable, EmbeddingTable, full_table_bytes
from legcf.scoring.foldin import user_maker

if TYPE_CHECKING:
    from legcf.training.run_folder import TrainedModel

_CURVE_POINTS = 100


def build(
    trained: "TrainedModel", options: ExportOptions | None = None, validation: Interactions | None = None
) -> ServedModel:
    """Return the model that `options` describe: its final vectors, coded or as they are, with all that serving needs.

    `validation` pairs, when there are any, choose how users are folded in; the training pairs alone do otherwise.
    Users that are nothing but their histories have no vectors in the file.
    """
    ranking = trained.ranking
    if not (np.isfinite(ranking.users).all() and np.isfinite(ranking.items).all()):
        raise UserError("The model's vectors hold NaN or infinite values, so it cannot be served: train it again.")
    if ranking.filter is not None:
        raise UserError(
            f"A model of {trained.config.method.name} ranks by the graph of its training pairs, which a model file does"
            " not hold: recommend from the run folder."
        )
    options = (options or ExportOptions()).resolved(trained)
    assert options.dtype is not None
    keep_users = options.users == "coded"
    half = "float32" if options.dtype == "float32" else "float16"  # of numbers stored once per item: int8 is too coarse
    rng = np.random.default_rng(options.seed)
    user_rows, item_rows = _tables(ranking, options, rng)
    served = Ranking(
        user_rows.vectors(slice(None)),
        item_rows.vectors(slice(None)),
        ranking.histories,
        bias=None if ranking.bias is None else rounded(ranking.bias, half),
        lists=ranking.lists,
        popularity=ranking.popularity,
    )
    encoder, user_encoder = trained.encoder, trained.user_encoder
    model = ServedModel(
        items=trained.items,
        item_rows=item_rows,
        popularity=ranking.popularity,
        users=trained.users if keep_users or options.history else None,
        user_rows=user_rows if keep_users else None,
        item_bias=served.bias,
        titles=trained.titles if options.titles else None,
        history=PackedHistories.of(trained.known) if options.history else None,
        pooling=ranking.pooling,
        card=card_of(trained, item_rows),
        dtype=options.dtype,
        lists=ranking.lists,
        encoder=None if encoder is None else encoder.aligned_to(ranking.items, served.items),
        user_encoder=None if user_encoder is None else user_encoder.facing(ranking.items, served.items),
        dislikes=PackedHistories.of(ranking.dislikes) if options.history and ranking.dislikes is not None else None,
        repeats=ranking.repeats,
    )
    return model if ranking.pooling is not None else calibrated(model, served, validation, rng, options.quiet)


def _tables(
    ranking: Ranking, options: ExportOptions, rng: np.random.Generator
) -> tuple[EmbeddingTable, EmbeddingTable]:
    """Return users and items as the file will hold them."""
    t, c, dtype = options.t, options.c, options.dtype
    assert dtype is not None
    if options.format == "full":
        return DenseTable(rounded(ranking.users, dtype)), DenseTable(rounded(ranking.items, dtype))
    own_t = ranking.codes.items.per_entity if ranking.codes else 0
    if c is None and options.users != "coded" and (t is None or t >= own_t):
        # Nothing is lost by keeping what the items are made of already; users are made of their items.
        if ranking.rows is not None and ranking.rows.codes is None:
            return DenseTable(ranking.users), ranking.rows
        if ranking.codes is not None:
            return DenseTable(ranking.users), keep_codes(ranking.codes, dtype)
    if c is None:
        entities = ranking.num_users + ranking.num_items
        c = min(DEFAULT_C, entities) if ranking.meta is None else len(ranking.meta)
    sizes = Sizes(c, min(DEFAULT_T, c) if t is None else t)
    return _coded((ranking.users, ranking.items), sizes, dtype, rng, options.quiet)


def _coded(
    sides: tuple[FloatArray, FloatArray], sizes: Sizes, dtype: str, rng: np.random.Generator, quiet: bool = True
) -> tuple[CodebookTable, CodebookTable]:
    """Code users and items (`sides`) over one codebook.

    The codebook is rounded to `dtype` before the last pursuit, so that the weights make up for its rounding.
    """
    user_rows, item_rows, metric = balance(*sides)
    rows = np.concatenate([user_rows, item_rows]).astype(np.float32)
    book, _ = learn(rows, sizes.c, sizes.t, rng, quiet=quiet)
    stored = rounded(book * metric, dtype)
    book = stored / metric
    columns, weights = encode(rows, book, sizes.t)
    narrow: NDArray[np.unsignedinteger] = columns.astype(column_type(sizes.c))
    weights = rounded(weights, dtype)
    split = len(sides[0])
    coded_users = CodebookTable(narrow[:split], weights[:split], stored)
    return coded_users, CodebookTable(narrow[split:], weights[split:], stored)


def served_histories(model: ServedModel, dataset: Dataset) -> Interactions:
    """Return the training pairs, weighed by their order where the model counts it and the data has one."""
    half_life = None if model.pooling is None else model.pooling.half_life
    if half_life is None or dataset.order is None:
        return dataset.train
    return recent(dataset.train, dataset.order, half_life)


def served_ranking(model: ServedModel, train: Interactions, quiet: bool = False) -> Ranking:
    """Return what a client sees of the served model when users have the histories of `train`."""
    if model.user_rows is not None:
        users = model.user_rows.vectors(slice(None))
    else:
        with progress("Making users of their items", train.num_users, "users", quiet) as task:
            users = user_maker(model).vectors(train, task)
    return Ranking(
        users,
        model.item_rows.vectors(slice(None)),
        train,
        bias=model.item_bias,
        lists=model.lists,
        popularity=model.popularity,
        dislikes=None if model.dislikes is None else model.dislikes.all(),
        repeats=model.repeats,
    )


def card_of(trained: "TrainedModel", rows: EmbeddingTable) -> dict[str, Any]:
    """Return what the page shows of the training; the curve is thinned out so that the file stays small."""
    entities = len(trained.users) + len(trained.items)
    card = {key: value for key, value in trained.card.items() if key != "config"}
    curve = [line for line in card.get("curve") or [] if "search" not in line]
    card["curve"] = [
        {key: float(f"{value:.5g}") if isinstance(value, float) else value for key, value in line.items()}
        for line in curve[:: max(1, -(-len(curve) // _CURVE_POINTS))]
    ]
    card["full_table_bytes"] = full_table_bytes(entities)
    card["serving"] = {"d": rows.width, "entities": entities, **rows.facts}
    if trained.ranking.lists is not None:
        card["serving"]["list_entries"] = trained.ranking.lists.num_entries
    return card
