# SPDX-License-Identifier: Apache-2.0
"""Weigh popularity, repeats and the order of histories by validation, where the configuration leaves that to it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from legcf.core.config import RunConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset, Interactions
from legcf.data.preparing.splits import find_protocol
from legcf.evaluation.weights import choose_half_life, choose_popularity_weight, choose_repeat_weight
from legcf.ranking.builder import RankingBuilder
from legcf.ranking.recency import recent
from legcf.training.selection.select import Selected


def with_popularity(selected: Selected, builder: RankingBuilder, dataset: Dataset) -> Selected:
    """Weigh popularity in the scores by validation pairs, where the configuration leaves it to them."""
    config = selected.config
    if config.ranking.popularity_weight is not None:
        return selected
    weight = 0.0
    if dataset.validation.num_pairs:
        weight = choose_popularity_weight(selected.ranking, dataset.validation, config.seed)
    settings = config.ranking.model_copy(update={"popularity_weight": weight})
    selected = replace(selected, config=config.model_copy(update={"ranking": settings}))
    if not weight:
        return selected
    return replace(selected, ranking=replace(builder, config=settings).build(selected.model.ranking(), None).ranking)


def with_repeats(selected: Selected, builder: RankingBuilder, dataset: Dataset) -> Selected:
    """Show users what they have, where data says that they take it again; validation pairs weigh it."""
    config = selected.config
    if not dataset.repeats or config.ranking.repeat_weight is not None:
        return selected
    weigh = partial(replace(builder, config=config.ranking).with_repeats, selected.ranking)
    weight = 1.0
    if dataset.validation.num_pairs:
        weight = choose_repeat_weight(weigh, dataset.validation, config.seed)
    settings = config.ranking.model_copy(update={"repeat_weight": weight})
    return replace(selected, ranking=weigh(weight), config=config.model_copy(update={"ranking": settings}))


def with_recency(selected: Selected, dataset: Dataset) -> tuple[Selected, Interactions]:
    """Weigh histories by their order, as the configuration says or validation chooses; return all known pairs so too.

    `auto` weighs nothing where there is no order, or where the protocol does not hold out what came later.
    """
    config, ranking, order = selected.config, selected.ranking, dataset.order
    half_life = config.ranking.half_life_items
    if half_life is None:
        return selected, dataset.known
    if half_life == "auto":
        half_life = None
        later = dataset.validation.num_pairs > 0 and find_protocol(dataset.protocol).needs_time
        if later and order is not None and ranking.pooling is not None:
            half_life = choose_half_life(ranking, order, dataset.validation, config.seed)
        settings = config.ranking.model_copy(update={"half_life_items": half_life})
        selected = replace(selected, config=config.model_copy(update={"ranking": settings}))
        if half_life is None:
            return selected, dataset.known
    if ranking.pooling is None:
        raise UserError(
            "ranking.half_life_items is for models whose users are their histories: add --backbone history."
        )
    assert order is not None
    train = recent(dataset.train, order, half_life)
    known = train if dataset.known is dataset.train else recent(dataset.known, order, half_life)
    return replace(selected, ranking=ranking.with_recency(train, half_life)), known


def refuse_unordered(config: RunConfig, dataset: Dataset) -> None:
    """Refuse in one sentence, before any work is done, to weigh histories by an order that they do not have."""
    half_life = config.ranking.half_life_items
    if half_life is not None and (dataset.train.weights is not None or dataset.repeats):
        raise UserError("ranking.half_life_items does not go with weights of pairs or --repeat allow: leave one out.")
    if half_life not in (None, "auto") and dataset.order is None:
        raise UserError(
            "ranking.half_life_items needs times, which a prepared folder does not keep: train on a table with some,"
            " with --protocol leave-last-out, --protocol temporal or --time-col."
        )
