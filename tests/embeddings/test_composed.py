# SPDX-License-Identifier: Apache-2.0
"""Composed rows and their gradient are what torch makes of them."""

import pytest
import torch

from legcf.embeddings.composed import composed


@pytest.mark.parametrize(("rows", "buckets", "width", "each"), [(200, 7, 3, 1), (90, 30, 64, 2), (50, 9, 70, 3)])
def test_value_and_gradient_are_those_of_torch(rows: int, buckets: int, width: int, each: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    codebook = torch.randn(buckets, width, generator=generator).requires_grad_()
    indices = torch.randint(0, buckets, (rows, each), generator=generator, dtype=torch.int32)
    weights, pull = torch.randn(rows, each, generator=generator), torch.randn(rows, width, generator=generator)
    bags = torch.nn.functional.embedding_bag(indices, codebook, per_sample_weights=weights, mode="sum")

    made = composed(codebook, indices, weights)

    torch.testing.assert_close(made, bags)
    for one, reference in zip(*(torch.autograd.grad(of, codebook, pull) for of in (made, bags)), strict=True):
        torch.testing.assert_close(one, reference)


def test_no_rows_have_no_gradient() -> None:
    codebook = torch.ones(3, 2).requires_grad_()
    nothing = composed(codebook, torch.zeros((0, 2), dtype=torch.int32), torch.zeros((0, 2)))
    assert nothing.shape == (0, 2)
    assert torch.autograd.grad(nothing.sum(), codebook)[0].abs().sum() == 0
