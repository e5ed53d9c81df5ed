# SPDX-License-Identifier: Apache-2.0
"""A user is the weighted sum of its items, and can be had without any one of them."""

import numpy as np
import torch
from hypothesis import given

from legcf.backbones.history import History, HistoryConfig
from legcf.data.interactions import Interactions
from legcf.graph.adjacency import bipartite
from tests.helpers import graphs


def propagate(train: Interactions, config: HistoryConfig) -> tuple[History, torch.Tensor, torch.Tensor]:
    backbone = History(config, width=3)
    rows = torch.randn(train.num_users + train.num_items, 3, generator=torch.Generator().manual_seed(1))
    operator = backbone.operator(bipartite(train), train.num_users, train.num_items)
    return backbone, rows, backbone.propagate(operator, rows)


@given(train=graphs())
def test_items_keep_their_rows_and_users_sum_theirs(train: Interactions) -> None:
    config = HistoryConfig(user_power=1.0, item_power=0.0)
    _, rows, vectors = propagate(train, config)
    items = rows[train.num_users :]
    assert torch.equal(vectors[train.num_users :], items)
    for user in range(train.num_users):
        own = items[torch.from_numpy(train.of(user).astype(np.int64))]
        expected = own.mean(dim=0) if len(own) else torch.zeros(3)
        assert torch.allclose(vectors[user], expected, atol=1e-5)


@given(train=graphs())
def test_without_a_pair_its_item_no_longer_counts(train: Interactions) -> None:
    backbone, rows, vectors = propagate(train, HistoryConfig())
    users = torch.from_numpy(train.users().astype(np.int64))
    places = torch.from_numpy(train.items.astype(np.int64)) + train.num_users
    left = backbone.without_pairs(vectors, torch.arange(len(vectors)), users, places)
    changed = rows.clone()
    for pair in range(train.num_pairs):
        changed.copy_(rows)
        changed[places[pair]] = 0
        operator = backbone.operator(bipartite(train), train.num_users, train.num_items)
        expected = backbone.propagate(operator, changed)[users[pair]]
        assert torch.allclose(left[pair], expected, atol=1e-5)
