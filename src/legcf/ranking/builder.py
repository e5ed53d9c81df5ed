# SPDX-License-Identifier: Apache-2.0
"""Build what ranks from a model's vectors, as the section `ranking` of the configuration asks: the step after training.

What is left to choose is chosen by an `Objective` of the caller; this module knows neither held-out pairs nor metrics.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import NamedArrays
from legcf.core.config import RankingConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists, entries_within
from legcf.ranking.item_lists.recipe import ListFitter, Objective
from legcf.ranking.item_lists.repeats import with_repeats
from legcf.ranking.popularity import with_popularity
from legcf.ranking.precision import as_stored
from legcf.ranking.ranking import Ranking

BIAS_BYTES = 2  # of what a file adds to an item's scores
_NOTHING_TO_CHOOSE = {"search_representation": False, "fit_lists": False}


@dataclass(frozen=True, eq=False)
class BuiltRanking:
    """Hold a ranking and the settings that give it again with nothing left to choose."""

    ranking: Ranking
    config: RankingConfig


@dataclass(frozen=True, eq=False)
class RankingBuilder:
    """Add to rankings of one model what the configuration names."""

    config: RankingConfig
    byte_budget: int | None = None
    """Bytes that a model file has for vectors and lists; None where no size is configured."""
    fitter: ListFitter | None = None
    """Solves lists of the training pairs, where several builders share the work, or rankings have the histories of some
    users alone; None: lists are of the histories."""
    method_lists: ItemLists | None = None
    """Lists that the method itself ranks by."""

    def __post_init__(self) -> None:
        if self.method_lists is not None and self.config.has_lists:
            raise UserError("This method ranks by lists of its own: set ranking.lists to 0.")

    def base(self, ranking: Ranking) -> Ranking:
        """Add what is configured except lists: what epochs of training are validated by."""
        ranking = ranking.with_norm_power(self.config.norm_power)
        return ranking if self.method_lists is None else replace(ranking, lists=self.method_lists)

    def build(self, ranking: Ranking, objective: Objective | None) -> BuiltRanking:
        """Add all that is configured; an objective chooses what the configuration leaves to it."""
        ranking = self.quantised(self.base(ranking))
        built = self._with_lists(ranking, objective) if self.config.has_lists else BuiltRanking(ranking, self.config)
        weight = self.config.repeat_weight
        return built if weight is None else replace(built, ranking=self.with_repeats(built.ranking, weight))

    def with_repeats(self, ranking: Ranking, weight: float) -> Ranking:
        """Show users what they have, too; in a file of a configured size, lists keep to the bytes that they had."""
        lists = ranking.lists
        most = None if lists is None or self.byte_budget is None else lists.storage_bytes()
        return with_repeats(ranking, weight, self.config.list_power, most)

    def from_arrays(self, ranking: Ranking, stored: NamedArrays) -> Ranking:
        """Restore a built ranking from a model's vectors and from what `arrays` returned for it."""
        ranking = self.quantised(ranking.with_norm_power(self.config.norm_power))
        ranking = replace(ranking, repeats=self.config.repeat_weight is not None)
        if "list_weights" in stored:
            items = np.asarray(stored["list_items"], dtype=np.int32)
            pairs = Interactions(np.asarray(stored["list_indptr"], dtype=np.int64), items, ranking.num_items)
            weights = np.asarray(stored["list_weights"], dtype=np.float32)
            scale = float(stored["list_scale"].item()) if "list_scale" in stored else 0.0
            return replace(ranking, lists=ItemLists(pairs, weights, self.config.list_power, scale))
        return ranking

    def quantised(self, ranking: Ranking) -> Ranking:
        """Round vectors to what a model file will hold, where its size or precision is configured; add popularity."""
        return with_popularity(self._rounded(ranking), self.config.popularity_weight or 0.0)

    def _rounded(self, ranking: Ranking) -> Ranking:
        if self.config.bits is None and self.config.bytes is None:
            return ranking
        if ranking.pooling is None:
            raise UserError(
                "ranking.bytes and ranking.bits are for models whose users are their histories: add --backbone history"
                " (with a preset for it), or set both to null."
            )
        return as_stored(ranking, self.config.bits)

    def entries(self, ranking: Ranking) -> int:
        """Return how many entries the lists beside these vectors may have."""
        if self.config.lists is not None:
            return round(self.config.lists * ranking.num_items)
        assert self.byte_budget is not None
        assert ranking.rows is not None
        taken = ranking.rows.packed_bytes + (BIAS_BYTES * ranking.num_items if self.config.popularity_weight else 0)
        return entries_within(self.byte_budget - taken, ranking.num_items, self.config.list_bits)

    def with_list_weight(
        self,
        ranking: Ranking,
        lists: ItemLists,
        config: RankingConfig,
        objective: Objective | None,
        between: bool = False,
    ) -> BuiltRanking:
        """Add these lists, with the best weight where the configuration leaves it to the objective.

        It may lie `between` those that are tried; else the configured weight is left for a better one alone.
        """
        fitter = self._fitter_for(ranking)
        if objective is not None and config.fit_weight:
            weight, _ = fitter.weighed(ranking, lists, config.list_weight, objective, config, between)
            config = config.model_copy(update={"list_weight": weight})
        return BuiltRanking(
            fitter.added(ranking, lists, config.list_weight), config.model_copy(update=_NOTHING_TO_CHOOSE)
        )

    def _with_lists(self, ranking: Ranking, objective: Objective | None) -> BuiltRanking:
        builder, config = replace(self, fitter=self._fitter_for(ranking)), self.config
        assert builder.fitter is not None
        if objective is not None and config.fit_lists:
            config = builder.fitter.settings(ranking, config, objective, self.entries(ranking))
        lists = builder.fitter.lists(config, self.entries(ranking))
        return builder.with_list_weight(ranking, lists, config, objective, between=True)

    def _fitter_for(self, ranking: Ranking) -> ListFitter:
        return ListFitter(ranking.histories) if self.fitter is None else self.fitter


def arrays(ranking: Ranking) -> dict[str, NDArray[np.generic]]:
    """Return what a run folder keeps of a built ranking, beside the vectors of its model."""
    lists = ranking.lists
    if lists is None:
        return {}
    return {
        "list_indptr": lists.pairs.indptr,
        "list_items": lists.pairs.items,
        "list_weights": lists.weights,
        "list_scale": np.array(lists.scale),
    }
