# SPDX-License-Identifier: Apache-2.0
"""Make the model that a run answers from: what `legcf recommend` reads instead of opening the run with torch.

It ranks as the run does: rows are kept as they were tested, in float32 where they were not rounded, and histories are
all pairs that are known. Users that are their histories have no vectors in it, so it is about as large as an export.
"""

from typing import TYPE_CHECKING

from legcf.export.build import card_of
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.precision import keep_codes
from legcf.ranking.tables.embedding_table import DenseTable

if TYPE_CHECKING:
    from legcf.training.run_folder import TrainedModel

_MOST_BYTES = 2**28
"""Of users' and items' vectors in float32: a run with more of them is opened itself. A rule of thumb, not measured."""
_MOST_ENTRIES = 5_000_000
"""Of lists, which are decoded when the file is opened. A rule of thumb, not measured."""
_EXACT_BITS = 16
"""Of a weight in a list or of a pair. Lists that were rounded to fewer when they were tested keep their values."""


def answer_model(trained: "TrainedModel") -> ServedModel | None:
    """Return the model to answer from; None where it would be too large to open at once, or no file can rank so."""
    ranking = trained.ranking
    if ranking.filter is not None:
        return None
    rows = ranking.rows  # as they were tested, in the fewest bytes that give them back
    if rows is None:
        rows = DenseTable(ranking.items) if ranking.codes is None else keep_codes(ranking.codes, "float32")
    user_rows = None if ranking.pooling is not None else DenseTable(ranking.users)
    dense = [table for table in (user_rows, rows) if isinstance(table, DenseTable)]
    entries = 0 if ranking.lists is None else ranking.lists.num_entries
    if sum(table.table.nbytes for table in dense) > _MOST_BYTES or entries > _MOST_ENTRIES:
        return None
    return ServedModel(
        items=trained.items,
        item_rows=rows,
        popularity=ranking.popularity,
        users=trained.users,
        user_rows=user_rows,
        item_bias=ranking.bias,
        titles=trained.titles,
        history=PackedHistories.of(trained.known, _EXACT_BITS),
        pooling=ranking.pooling,
        card=card_of(trained, rows),
        dtype="float32",
        lists=ranking.lists,
        list_bits=_EXACT_BITS,
        dislikes=None if ranking.dislikes is None else PackedHistories.of(ranking.dislikes),
        repeats=ranking.repeats,
        user_encoder=trained.user_encoder,
    )
