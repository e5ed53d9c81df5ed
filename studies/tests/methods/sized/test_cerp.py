# SPDX-License-Identifier: Apache-2.0
"""CERP's composition, its push away from null rows, and its sizes."""

from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf_studies.methods.sized.cerp import Cerp, CerpConfig
from tests.helpers import random_interactions

TRAIN = random_interactions(30, 20, 0.2, seed=0)


def made(**options: Any) -> Cerp:
    layer = Cerp(CerpConfig(**{"dim": 6, "buckets": 8, "budget": 60, **options}), 30, 20)
    layer.initialise(TRAIN, np.random.default_rng(0))
    return layer


@pytest.mark.parametrize("buckets", [5, 7, 8, 20, 50])
def test_entities_share_both_rows_only_where_there_are_too_few_buckets(buckets: int) -> None:
    remainder, quotient = made(buckets=buckets).table_rows(torch.arange(50))
    pairs = set(zip(remainder.tolist(), quotient.tolist(), strict=True))
    assert (len(pairs) == 50) == (-(-50 // buckets) <= buckets)
    assert remainder.max() < buckets <= quotient.min()
    assert quotient.max() < 2 * buckets


def test_without_pruning_it_is_quotient_and_remainder_added() -> None:
    layer = made()
    layer.pruned.thresholds.data.fill_(-1e4)
    remainder_table, quotient_table = layer.pruned.values.detach().split(8)
    ids = torch.arange(50)
    assert torch.allclose(layer.table(), remainder_table[ids % 8] + quotient_table[ids // 7])


def test_the_push_counts_what_is_not_null() -> None:
    layer = made()
    assert layer.penalty() is None
    ids = torch.tensor([0, 3, 40])
    values = []
    for logit in (1e4, 0.0, -3.0, -1e4):
        layer.pruned.thresholds.data.fill_(logit)
        layer.pushed = ids, 2.0
        pushed = layer.penalty()
        assert pushed is not None
        values.append(pushed.item())
    assert values[0] == 0
    assert values == sorted(values, reverse=True)
    assert values[-1] >= -2 * 3 * 6


def test_sizes() -> None:
    config = Cerp.sized(CerpConfig(budget="legcf", dim=128), 29_858, 40_981)
    assert config.max_entries == 205_678  # type: ignore[attr-defined]
    assert config.buckets == 4018  # type: ignore[attr-defined]
    given = Cerp.sized(CerpConfig(budget="legcf", dim=128, buckets=100), 29_858, 40_981)
    assert given.max_entries == 2 * 100 * 128  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="more than the 50 users and items"):
        made(buckets=51)
    with pytest.raises(UserError, match="more than the 96 entries"):
        made(max_entries=97)
