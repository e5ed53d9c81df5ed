# SPDX-License-Identifier: Apache-2.0
"""The contract of every backbone of this package."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from legcf.backbones.lightgcn import LightGCN, LightGCNConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.testing.backbones import INPUT_WIDTH, BackboneContract, made, propagated, rows_for
from legcf.training.registry import BACKBONES
from tests.helpers import dense_bipartite, dense_normalised, graphs, layer_mean, random_interactions


@pytest.mark.parametrize("backbone_name", BACKBONES.built_in)
class TestBackbones(BackboneContract):
    pass


class TestLightGCN:
    @given(graphs(), st.integers(0, 4))
    def test_against_dense(self, train: Interactions, layers: int) -> None:
        rows = rows_for(train)
        wanted = layer_mean(dense_normalised(dense_bipartite(train)), rows.numpy(), layers)
        assert np.allclose(propagated(made("lightgcn", layers=layers), train, rows).numpy(), wanted, atol=1e-5)

    def test_nodes_without_pairs_keep_their_share(self) -> None:
        train = Interactions.empty(2, 2)
        assert torch.allclose(propagated(made("lightgcn", layers=3), train, rows_for(train)), rows_for(train) / 4)

    def test_layers_may_be_weighed(self) -> None:
        train = random_interactions(4, 5, 0.5, seed=0)
        backbone = LightGCN(LightGCNConfig(layers=1, layer_weights=[0.0, 2.0]), INPUT_WIDTH)
        wanted = 2 * dense_normalised(dense_bipartite(train)) @ rows_for(train).numpy()
        assert np.allclose(propagated(backbone, train, rows_for(train)).numpy(), wanted, atol=1e-5)
        with pytest.raises(UserError, match="layer"):
            made("lightgcn", layers=2, layer_weights=[1.0])
