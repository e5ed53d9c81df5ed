# SPDX-License-Identifier: Apache-2.0
"""Measure a model: its accuracy, its size, the bytes that its file leaves for it, and the memory it took."""

import sys
from dataclasses import dataclass
from typing import Any

from legcf.core.arrays import Positions
from legcf.core.config import MethodConfig, RunConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.embeddings.layer import bytes_of
from legcf.embeddings.sizes import sizes_by_popularity
from legcf.evaluation.evaluate import accuracies
from legcf.modelfile.served_model import EVENT_WEIGHTS, codebook_reserve, fixed_bytes
from legcf.ranking.builder import BIAS_BYTES
from legcf.ranking.ranking import Ranking
from legcf.ranking.tables.embedding_table import full_table_bytes
from legcf.training.build import Model

# Bytes of `ranking.bytes = auto`: every file of 0.5 MB and more passes a full table on four data sets, and above 1 MB
# small catalogues gain nothing (docs/size.md). 48 bytes per item are 2 MB on Gowalla; other numbers were not measured.
_AUTO_BYTES, _AUTO_BYTES_PER_ITEM = 1_000_000, 48
_LEAST_BYTES_PER_ITEM = 6  # bytes, for a code and a list entry; not measured


@dataclass(frozen=True)
class ByteBudget:
    """Hold the size of a model file and what its names and header take of it."""

    file_bytes: int
    fixed_bytes: int | None
    """None where the size is `auto`: names and header then come on top."""
    num_items: int

    @classmethod
    def of(cls, config: RunConfig, dataset: Dataset) -> "ByteBudget | None":
        """Return the budget of `ranking.bytes`; None where a file may have any size."""
        size = config.ranking.bytes
        if size is None:
            return None
        if size == "auto":
            return cls(max(_AUTO_BYTES, _AUTO_BYTES_PER_ITEM * dataset.num_items), None, dataset.num_items)
        fixed = fixed_bytes(dataset.items, dataset.titles, dataset.train.item_degrees)
        return cls(int(size), fixed, dataset.num_items)

    def left(self, method: MethodConfig) -> int:
        """Return the bytes for vectors and lists, beside the codebook that these settings name."""
        if self.fixed_bytes is None:
            return self.file_bytes
        fixed, least = self.fixed_bytes + codebook_reserve(method.codebook_size), _LEAST_BYTES_PER_ITEM * self.num_items
        if self.file_bytes - fixed < least:
            raise UserError(
                f"A model file of {self.file_bytes:,} bytes is too small for {self.num_items:,} items:"
                f" names and header take {fixed:,}, and {fixed + least:,} are the least for all; raise --bytes,"
                " or let it be auto."
            )
        return self.file_bytes - fixed


def assess(
    model: Model, ranking: Ranking, dataset: Dataset, config: RunConfig, among: Positions | None = None
) -> dict[str, Any]:
    """Return accuracy (over all users, or those `among` them), sizes, split, protocol, preset and seed of a model."""
    layer, lists = model.layer, ranking.lists
    sizes = layer.entity_sizes()
    backbone_params = sum(parameter.numel() for parameter in model.backbone.parameters())
    parts = {"test": dataset.test, "validation": dataset.validation}
    measured = accuracies(ranking, {name: part for name, part in parts.items() if part.num_pairs}, among=among)
    return {
        **{name: measured.get(name, {}) for name in parts},
        "num_params": layer.num_params() + (0 if lists is None else lists.num_entries),
        **({} if sizes is None else {"sizes": sizes_by_popularity(sizes, dataset.train)}),
        "backbone_params": backbone_params,
        "total_trainable": layer.total_trainable() + backbone_params,
        "storage_bytes": (layer.storage_bytes() if ranking.rows is None else ranking.rows.packed_bytes)
        + bytes_of(model.backbone.parameters())
        + (0 if lists is None else lists.storage_bytes())
        + (BIAS_BYTES * ranking.num_items if config.ranking.popularity_weight else 0),
        **({} if lists is None else {"list_entries": lists.num_entries}),
        "full_table_bytes": full_table_bytes(layer.num_entities),
        "dataset": dataset.name,
        "protocol": dataset.protocol,
        "content_hash": dataset.content_hash,
        **({} if dataset.weighed_at is None else {"weighed_at": dataset.weighed_at}),
        **{key: kinds for key in (EVENT_WEIGHTS,) if (kinds := dataset.provenance.get("options", {}).get(key))},
        "method": config.method.name,
        "backbone": config.backbone.name,
        "preset": config.preset,
        "seed": config.seed,
    }


def peak_memory_mb() -> float:
    """Return the most memory that this process has had."""
    if sys.platform == "win32":
        import psutil

        return float(psutil.Process().memory_info().peak_wset) / 2**20
    import resource  # here: Windows has none

    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**20
