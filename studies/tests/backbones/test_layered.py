# SPDX-License-Identifier: Apache-2.0
"""The product that layers are made of."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from legcf.graph.operator import Operator
from legcf_studies.backbones.layered import product

WIDTH = 3


@pytest.mark.parametrize("symmetric", [True, False])
def test_product_has_the_gradient_of_its_matrix(symmetric: bool) -> None:
    matrix = sp.random(17, 17, 0.2, format="csr", dtype=np.float32, random_state=5)
    matrix = (matrix + matrix.T).tocsr() if symmetric else matrix
    operator = Operator(matrix, symmetric)
    rows = torch.randn(17, WIDTH, requires_grad=True)
    pull = torch.randn(17, WIDTH)
    (product(operator, rows) * pull).sum().backward()
    assert np.allclose(rows.grad.numpy(), matrix.T @ pull.numpy(), atol=1e-5)
