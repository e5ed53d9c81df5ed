"""From a trained model to a serving model."""

from typing import Any, Protocol

import numpy as np

from legcf.data.ids import IdMap
from legcf.data.interactions import Interactions
from legcf.errors import UserError
from legcf.evaluation import evaluate
from legcf.progress import progress
from legcf.ranking.neighbours import Neighbours
from legcf.ranking.precision import keep_codes, rounded
from legcf.ranking.ranking import Ranking
from legcf.ranking.rows import CodedRows, FullRows, Rows
from legcf.serving import atlas
from legcf.serving.artifact import FoldIn, ServingModel
from legcf.serving.calibrate import calibrate_items, calibrate_users
from legcf.serving.coding import code_sides
from legcf.serving.foldin import user_maker
from legcf.serving.history import PackedHistories

DEFAULT_CODEBOOK = 500
_CURVE_POINTS = 200


class Trained(Protocol):
    """What is needed of a trained model; `legcf.trained_model.TrainedModel` has it."""

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
    def card(self) -> dict[str, Any]:
        """What there is to know about the model: how it was made, its size and its accuracy."""


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
    user_rows: Rows
    item_rows: Rows
    spots = None
    own = ranking.codes if form == "coded" and c is None and not keep_users else None
    if own is not None and own.items.per_entity <= t:
        # The model's items are codes already: nothing is lost by keeping them, and users are made of their items.
        user_rows, item_rows = FullRows(ranking.users), keep_codes(own, dtype)
        spots = rounded(atlas.layout(item_rows.codebook), "float16")
    elif form == "coded":
        c = c if c is not None else _codebook_size(ranking)
        user_rows, item_rows, book = code_sides(ranking.users, ranking.items, c, t, dtype, rng, quiet)
        spots = rounded(atlas.layout(book), "float16")
    else:
        user_rows, item_rows = FullRows(rounded(ranking.users, dtype)), FullRows(rounded(ranking.items, dtype))
    neighbours = ranking.term if keep_neighbours and keep_history else None
    served = Ranking(
        user_rows.vectors(slice(None)),
        item_rows.vectors(slice(None)),
        ranking.histories,
        bias=None if ranking.bias is None else rounded(ranking.bias, half),
        term=neighbours,
        popularity=ranking.popularity,
    )
    if fold_in is None:
        users = FoldIn() if ranking.pooling is not None else calibrate_users(item_rows, served, validation, rng, quiet)
        fold_in = users, calibrate_items(user_rows, served, rng)
    scale = neighbours.scale if isinstance(neighbours, Neighbours) else 0.0
    return ServingModel(
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
        atlas=spots,
        card=_card(trained, item_rows, scale),
        dtype=dtype,
        neighbour_scale=scale,
    )


def served_ranking(model: ServingModel, train: Interactions, quiet: bool = False) -> Ranking:
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
        term=Neighbours(train, train.transposed(), scale) if scale else None,
        popularity=model.popularity,
    )


def accuracy(served: Ranking, truth: Interactions) -> dict[str, float]:
    """Recall and NDCG at 20."""
    return evaluate(served, truth, (20,), metrics=("recall", "ndcg"))


def _codebook_size(ranking: Ranking) -> int:
    if ranking.meta is not None:
        return len(ranking.meta)
    return min(DEFAULT_CODEBOOK, ranking.num_users + ranking.num_items)


def _card(trained: Trained, rows: Rows, neighbour_scale: float) -> dict[str, Any]:
    """What the page shows of the training; the curve thinned out so that the file stays small."""
    entities = len(trained.users) + len(trained.items)
    card = {key: value for key, value in trained.card.items() if key != "config"}
    curve = [_plain(line) for line in card.get("curve") or []]
    card["curve"] = curve[:: max(1, -(-len(curve) // _CURVE_POINTS))]
    card["full_table_bytes"] = entities * trained.ranking.items.shape[1] * 4
    card["serving"] = {"d": rows.width, "entities": entities}
    if isinstance(rows, CodedRows):
        card["serving"] |= {"c": len(rows.codebook), "t": rows.columns.shape[1]}
    if neighbour_scale:
        card["serving"]["neighbour_scale"] = neighbour_scale
    return card


def _plain(line: dict[str, Any]) -> dict[str, Any]:
    """An epoch's line with short numbers."""
    return {key: float(f"{value:.5g}") if isinstance(value, float) else value for key, value in line.items()}
