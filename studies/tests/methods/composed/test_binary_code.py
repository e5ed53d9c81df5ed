# SPDX-License-Identifier: Apache-2.0
"""Binary code: bits in blocks, and back."""

from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.training.registry import resolve
from legcf_studies.methods.composed.binary_code import BinaryCode, BinaryCodeConfig, block_positions
from legcf_studies.methods.composed.qr import QrConfig, QuotientRemainder
from tests.helpers import planted


def made(users: int = 60, items: int = 40, **options: Any) -> BinaryCode:
    layer = BinaryCode(BinaryCodeConfig(**{"dim": 8, **options}), users, items)
    layer.initialise(planted(4, 4).train, np.random.default_rng(0))
    return layer


@pytest.mark.parametrize("blocks", ["succession", "skip"])
@pytest.mark.parametrize("block_bits", [1, 2, 3, 4, 7])
def test_a_code_can_be_read_back(blocks: str, block_bits: int) -> None:
    layer = made(blocks=blocks, block_bits=block_bits)
    positions = block_positions(layer.config, 100)
    assert sorted(bit for block in positions for bit in block) == list(range(7))
    codes = layer.codes(torch.arange(100)).numpy()
    back = sum(
        ((codes[:, block] >> place) & 1) << bit
        for block, bits in enumerate(positions)
        for place, bit in enumerate(bits)
    )
    assert np.array_equal(back, np.arange(100))
    assert len(np.unique(codes, axis=0)) == 100
    assert layer.table_rows(torch.arange(100)).max() == len(layer.weight) - 1


def test_two_consecutive_blocks_are_qr_with_a_sum() -> None:
    code = made(block_bits=4)
    other = QuotientRemainder(QrConfig(dim=8, m=16, op="add"), 60, 40)
    assert len(code.weight) == 16 + 7 == len(other.weight)
    other.weight.data.copy_(torch.cat([code.weight[16:], code.weight[:16]]))
    assert torch.allclose(code.table(), other.table(), atol=1e-7)


def test_one_table_for_all_blocks_lets_swapped_blocks_coincide() -> None:
    three_five, five_three = torch.tensor([3 + 8 * 5]), torch.tensor([5 + 8 * 3])
    assert torch.equal(
        made(block_bits=3, shared=True).rows(three_five), made(block_bits=3, shared=True).rows(five_three)
    )
    own = made(block_bits=3)
    assert not torch.equal(own.rows(three_five), own.rows(five_three))


@pytest.mark.parametrize(("fusion", "block_bits"), [("sum", 3), ("mean", 3), ("concat", 4)])
def test_fusions(fusion: str, block_bits: int) -> None:
    layer = made(fusion=fusion, block_bits=block_bits)
    chosen = layer.weight[layer.table_rows(torch.tensor([77]))[0]]
    wanted = {"sum": chosen.sum(dim=0), "mean": chosen.mean(dim=0), "concat": chosen.flatten()}
    assert torch.allclose(layer.rows(torch.tensor([77]))[0], wanted[fusion], atol=1e-7)
    linear = layer.linear_basis()
    assert (linear is None) == (fusion == "concat")
    if linear is not None:
        assert np.allclose(linear[0] @ linear[1].detach().numpy(), layer.table().detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("fusion", ["sum", "mean", "concat"])
def test_entries_start_as_large_as_lightgcns(fusion: str) -> None:
    assert abs(float(made(600, 400, dim=128, block_bits=5, fusion=fusion).table().detach().std()) - 0.1) < 0.02


def test_sizes_from_the_budget() -> None:
    layer = BinaryCode(BinaryCodeConfig(budget="legcf"), 29_858, 40_981)
    assert layer.config.block_bits == 10
    assert layer.num_params() == (1024 + 70) * 128
    assert layer.storage_bytes() == 4 * layer.num_params()
    assert BinaryCode(BinaryCodeConfig(block_bits=9), 29_858, 40_981).num_params() == (512 + 139) * 128
    assert BinaryCode(BinaryCodeConfig(block_bits=10, shared=True), 29_858, 40_981).num_params() == 1024 * 128
    for budget in range(120, 900, 50):
        for blocks in ("succession", "skip"):
            assert made(budget=budget, blocks=blocks).num_params() <= budget


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match="112 are the least"):  # 7 blocks of 2 rows of 8
        made(budget=111)
    with pytest.raises(UserError, match="too few"):
        made(budget=112, block_bits=4)
    with pytest.raises(UserError, match="more than the 7 bits"):
        made(block_bits=8)
    with pytest.raises(UserError, match="cannot be divided"):
        made(block_bits=3, fusion="concat")
    for options in ({"block_bits": 0}, {"blocks": "random"}):
        with pytest.raises(UserError, match="is not possible"):
            resolve("binary-code", overrides={"method": options})
