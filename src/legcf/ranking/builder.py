# SPDX-License-Identifier: Apache-2.0
"""From a model's vectors to what ranks, as the section `ranking` of the configuration wants it: a step after training.

What is chosen here is chosen on held-out pairs by whoever judges; this module knows neither data nor metrics.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.config import RankingConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.ranking.item_lists.lists import ItemLists, entries_within
from legcf.ranking.item_lists.recipe import ListFitter, Objective
from legcf.ranking.precision import as_stored
from legcf.ranking.ranking import Ranking

_STEPS = (2.0, 2.0**0.5)  # of the lists' weight, at last
Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, eq=False)
class BuiltRanking:
    """A ranking with what was chosen for it, and the settings that give it again without choosing."""

    ranking: Ranking
    config: RankingConfig


class RankingBuilder:
    """Adds to rankings of one model what the configuration names.

    `room` is what a model file has left for vectors and lists, where it has a size to keep to. `own` are lists that the
    method brings itself.
    """

    def __init__(
        self,
        config: RankingConfig,
        byte_budget: int | None = None,
        fitter: ListFitter | None = None,
        own: ItemLists | None = None,
    ) -> None:
        if own is not None and config.has_lists:
            raise UserError("This method ranks by lists of its own: set ranking.lists to 0.")
        self.config = config
        self._own = own
        self._byte_budget = byte_budget
        self.fitter = fitter

    def base(self, ranking: Ranking) -> Ranking:
        """With the settings as they are configured and without lists: what training is validated by."""
        ranking = ranking.with_norm_power(self.config.norm_power)
        return ranking if self._own is None else replace(ranking, lists=self._own)

    def build(self, ranking: Ranking, judge: Objective | None) -> BuiltRanking:
        """With all that is configured, and with what is judged best where it is to be chosen."""
        ranking = self.quantised(self.base(ranking))
        return self._listed(ranking, judge) if self.config.has_lists else BuiltRanking(ranking, self.config)

    def from_arrays(self, ranking: Ranking, stored: Arrays) -> Ranking:
        """With what `arrays` gave for a fitted one."""
        ranking = self.quantised(ranking.with_norm_power(self.config.norm_power))
        if "list_weights" in stored:
            items = np.asarray(stored["list_items"], dtype=np.int32)
            pairs = Interactions(np.asarray(stored["list_indptr"], dtype=np.int64), items, ranking.num_items)
            weights = np.asarray(stored["list_weights"], dtype=np.float32)
            scale = float(stored["list_scale"].item()) if "list_scale" in stored else 0.0
            return replace(ranking, lists=ItemLists(pairs, weights, self.config.list_power, scale))
        return ranking

    def quantised(self, ranking: Ranking) -> Ranking:
        """As the model file will hold it, where its size or precision is configured."""
        if self.config.bits is None and self.config.bytes is None:
            return ranking
        if ranking.pooling is None:
            raise UserError(
                "ranking.bytes and ranking.bits are for models whose users are their histories: add --backbone history"
                " (with a preset for it), or set both to null."
            )
        return as_stored(ranking, self.config.bits)

    def entries(self, ranking: Ranking) -> int:
        """How many entries the lists beside these vectors may have."""
        if self.config.lists is not None:
            return round(self.config.lists * ranking.num_items)
        assert self._byte_budget is not None
        assert ranking.rows is not None
        return entries_within(self._byte_budget - ranking.rows.packed_bytes, ranking.num_items, self.config.list_bits)

    def with_list_weight(
        self, ranking: Ranking, lists: ItemLists, config: RankingConfig, judge: Objective | None
    ) -> BuiltRanking:
        """With these lists, of the weight that is judged best where it is to be chosen."""
        fitter = self._fitter_of(ranking)
        if judge is not None and config.fit_weight:
            weight, _ = fitter.weighed(ranking, lists, config.list_weight, judge, config, _STEPS)
            config = config.model_copy(update={"list_weight": weight})
        return BuiltRanking(fitter.added(ranking, lists, config.list_weight), _chosen(config))

    def _listed(self, ranking: Ranking, judge: Objective | None) -> BuiltRanking:
        fitter, config = self._fitter_of(ranking), self.config
        if judge is not None and config.fit_lists:
            config = fitter.settings(ranking, config, judge)
        return self.with_list_weight(ranking, fitter.lists(config, self.entries(ranking)), config, judge)

    def _fitter_of(self, ranking: Ranking) -> ListFitter:
        if self.fitter is None or self.fitter.train is not ranking.histories:
            self.fitter = ListFitter(ranking.histories)
        return self.fitter


def _chosen(config: RankingConfig) -> RankingConfig:
    """The settings with nothing left to choose."""
    return config.model_copy(update={"search_representation": False, "fit_lists": False})


def arrays(ranking: Ranking) -> dict[str, NDArray[np.generic]]:
    """What was chosen for a ranking, beside the vectors that its model gives: a file keeps it."""
    lists = ranking.lists
    if lists is None:
        return {}
    return {
        "list_indptr": lists.pairs.indptr,
        "list_items": lists.pairs.items,
        "list_weights": lists.weights,
        "list_scale": np.array(lists.scale),
    }


def facts(ranking: Ranking) -> dict[str, Any]:
    """The same for people, as metrics.json has it."""
    return {} if ranking.lists is None else {"list_entries": ranking.lists.num_entries}
