"""From a trained model to a serving model."""

from typing import Any, Protocol

import numpy as np

from legcf.assignment.assignment import Assignment
from legcf.data.ids import IdMap
from legcf.data.interactions import Interactions
from legcf.errors import UserError
from legcf.evaluation import evaluate
from legcf.graph.neighbours import Neighbours
from legcf.progress import progress
from legcf.serving import atlas
from legcf.serving.artifact import FoldIn, ServingModel, popularity_bytes, popularity_counts
from legcf.serving.calibrate import Known, calibrate_items, calibrate_users, with_bias
from legcf.serving.coding import code_sides, keep_codes, rounded
from legcf.serving.foldin import FoldInSolver
from legcf.serving.history import History, Lists
from legcf.serving.rows import CodedRows, FloatArray, FullRows, Rows

DEFAULT_CODEBOOK = 500
_CURVE_POINTS = 200


class Trained(Protocol):
    """What is needed of a trained model; `legcf.Recommender` has it."""

    users: IdMap
    items: IdMap
    titles: list[str] | None
    train: Interactions
    user_vectors: FloatArray
    item_vectors: FloatArray
    meta_vectors: FloatArray | None
    neighbours: Neighbours | None

    @property
    def item_bias(self) -> FloatArray | None: ...

    @property
    def item_codes(self) -> tuple[FloatArray, Assignment] | None: ...

    @property
    def card(self) -> dict[str, Any]: ...


def build(
    trained: Trained,
    t: int = 4,
    c: int | None = None,
    dtype: str = "int8",
    form: str = "coded",
    keep_users: bool = True,
    keep_history: bool = True,
    keep_titles: bool = True,
    keep_neighbours: bool = True,
    validation: Interactions | None = None,
    fold_in: tuple[FoldIn, FoldIn] | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> ServingModel:
    """Code the final vectors (or keep them, `form="full"`) with all that serving needs.

    `validation` pairs, when there are any, choose how users are folded in; the training pairs alone do otherwise.
    `fold_in` gives the settings for users and items instead of choosing them. What neighbours add to scores is kept
    where the model has it and the histories, from which it is computed, are kept.
    """
    users, items, bias = _vectors(trained)
    train = trained.train
    rng = np.random.default_rng(seed)
    user_rows: Rows
    item_rows: Rows
    spots = None
    own = trained.item_codes if form == "coded" and c is None and not keep_users else None
    if own is not None and own[1].per_entity <= t:
        # The model's items are codes already: nothing is lost by keeping them, and users are solved from their items.
        user_rows, item_rows = FullRows(users), keep_codes(*own, dtype)
        spots = rounded(atlas.layout(item_rows.codebook), "float16")
    elif form == "coded":
        c = c if c is not None else _codebook_size(trained)
        user_rows, item_rows, book = code_sides(users, items, c, t, dtype, rng, quiet)
        spots = rounded(atlas.layout(book), "float16")
    else:
        user_rows, item_rows = FullRows(rounded(users, dtype)), FullRows(rounded(items, dtype))
    bias = None if bias is None else rounded(bias, "float16")
    popularity = popularity_bytes(train.item_degrees)
    neighbours = trained.neighbours if keep_neighbours and keep_history else None
    known = Known(user_rows.vectors(slice(None)), item_rows.vectors(slice(None)), bias, train, validation, neighbours)
    if fold_in is None:
        counts = popularity_counts(popularity)
        fold_in = calibrate_users(item_rows, counts, known, rng, quiet), calibrate_items(user_rows, known, rng)
    scale = 0.0 if neighbours is None else neighbours.scale
    return ServingModel(
        items=trained.items,
        item_rows=item_rows,
        popularity=popularity,
        users=trained.users if keep_users or keep_history else None,
        user_rows=user_rows if keep_users else None,
        item_bias=bias,
        titles=trained.titles if keep_titles else None,
        history=History.of_lists(train.indptr, train.items, train.num_items) if keep_history else None,
        fold_in=fold_in[0],
        fold_in_item=fold_in[1],
        atlas=spots,
        card=_card(trained, len(users) + len(items), item_rows, scale),
        dtype=dtype,
        neighbour_scale=scale,
    )


def accuracy(
    model: ServingModel,
    train: Interactions,
    truth: Interactions,
    quiet: bool = False,
    users: FloatArray | None = None,
) -> dict[str, float]:
    """Ranking metrics of the serving model as a client would see it; `users` are from `served_users` if at hand."""
    users = served_users(model, train, quiet) if users is None else users
    items = model.item_rows.vectors(slice(None))
    scale = model.neighbour_scale
    neighbours = Neighbours(train, train.transposed(), scale) if scale else None
    vectors = with_bias(users, items, model.item_bias)
    return evaluate(*vectors, truth, train, (20,), metrics=("recall", "ndcg"), neighbours=neighbours)


def served_users(model: ServingModel, train: Interactions, quiet: bool = False) -> FloatArray:
    """The vectors that users get: the stored ones, or all of them solved from `train`."""
    if model.user_rows is not None:
        return model.user_rows.vectors(slice(None))
    solver = FoldInSolver(model.item_rows, popularity_counts(model.popularity), model.fold_in)
    with progress("Solving users", train.num_users, "users", quiet) as task:
        return solver.vectors(Lists(train.indptr, train.items), task)


def _vectors(trained: Trained) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Users, items and bias. A trained model carries its bias as a last column; here it is stored by itself."""
    users, items, bias = trained.user_vectors, trained.item_vectors, trained.item_bias
    if not (np.isfinite(users).all() and np.isfinite(items).all()):
        raise UserError("The model's vectors hold NaN or infinite values, so it cannot be served: train it again.")
    if bias is not None and np.array_equal(items[:, -1], bias):
        users, items = users[:, :-1], items[:, :-1]
    return users, items, bias


def _codebook_size(trained: Trained) -> int:
    entities = len(trained.users) + len(trained.items)
    return len(trained.meta_vectors) if trained.meta_vectors is not None else min(DEFAULT_CODEBOOK, entities)


def _card(trained: Trained, entities: int, rows: Rows, neighbour_scale: float) -> dict[str, Any]:
    """What the page shows of the training; the curve thinned out so that the file stays small."""
    card = {key: value for key, value in trained.card.items() if key != "config"}
    curve = [_plain(line) for line in card.get("curve") or []]
    card["curve"] = curve[:: max(1, -(-len(curve) // _CURVE_POINTS))]
    card["full_table_bytes"] = entities * trained.item_vectors.shape[1] * 4
    card["serving"] = {"d": rows.width, "entities": entities}
    if isinstance(rows, CodedRows):
        card["serving"] |= {"c": len(rows.codebook), "t": rows.columns.shape[1]}
    if neighbour_scale:
        card["serving"]["neighbour_scale"] = neighbour_scale
    return card


def _plain(line: dict[str, Any]) -> dict[str, Any]:
    """An epoch's line with short numbers."""
    return {key: float(f"{value:.5g}") if isinstance(value, float) else value for key, value in line.items()}
