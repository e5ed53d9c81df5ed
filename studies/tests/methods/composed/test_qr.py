# SPDX-License-Identifier: Apache-2.0
"""QR: two numbers that together name one entity."""

from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.training.registry import resolve
from legcf_studies.methods.composed.qr import QrConfig, QuotientRemainder
from tests.helpers import planted

GOWALLA, YELP, AMAZON = (29_858, 40_981), (71_135, 45_063), (52_643, 91_599)


def made(users: int, items: int, **options: Any) -> QuotientRemainder:
    return QuotientRemainder(QrConfig(**options), users, items)


def pairs(layer: QuotientRemainder) -> np.ndarray:
    return torch.stack(layer.table_rows(torch.arange(layer.num_entities)), dim=1).numpy()


@pytest.mark.parametrize("m", [1, 2, 7, 10, 99, 100])
def test_quotient_and_remainder_name_one_entity(m: int) -> None:
    layer = made(60, 40, m=m)
    found = pairs(layer)
    quotients = -(-100 // m)
    quotient, remainder = found[:, 0], found[:, 1] - quotients
    assert len(layer.weight) == quotients + m == layer.num_params() / 128
    assert np.array_equal(quotient * m + remainder, np.arange(100))
    assert quotient.max() < quotients
    assert remainder.max() < m
    assert len(np.unique(found, axis=0)) == 100


@pytest.mark.parametrize(("m", "distinct"), [(10, True), (40, True), (9, False), (3, False)])
def test_balanced_tables_name_one_entity_from_the_root_of_n_on(m: int, distinct: bool) -> None:
    layer = made(60, 40, m=m, partition="balanced")
    found = pairs(layer)
    assert len(layer.weight) == 2 * m
    assert found.max() < 2 * m
    assert (len(np.unique(found, axis=0)) == 100) == distinct


@pytest.mark.parametrize("op", ["mult", "add", "concat"])
def test_what_a_row_is_made_of(op: str) -> None:
    layer = made(6, 4, m=4, dim=6, op=op)
    layer.initialise(planted(6, 4).train, np.random.default_rng(0))
    quotient, remainder = layer.weight[2], layer.weight[3 + 1]  # 9 = 2 · 4 + 1
    wanted = {"mult": quotient * remainder, "add": quotient + remainder, "concat": torch.cat([quotient, remainder])}
    assert torch.equal(layer.rows(torch.tensor([9]))[0], wanted[op])
    assert layer.table().shape == (10, 6)


@pytest.mark.parametrize("op", ["mult", "add"])
def test_a_remainder_row_belongs_to_its_residue_class(op: str) -> None:
    layer = made(60, 40, m=7, op=op, dim=4)
    layer.initialise(planted(60, 40).train, np.random.default_rng(0))
    before = layer.table().detach().clone()
    with torch.no_grad():
        layer.weight[-(-100 // 7) + 3] += 1
    changed = torch.any(layer.table() != before, dim=1)
    assert torch.equal(changed, torch.arange(100) % 7 == 3)


@pytest.mark.parametrize("op", ["mult", "add", "concat"])
def test_entries_start_as_large_as_lightgcns(op: str) -> None:
    layer = made(600, 400, op=op, m=300)
    layer.initialise(planted(600, 400).train, np.random.default_rng(0))
    table = layer.table().detach()
    assert abs(float(table.std()) - 0.1) < 0.01
    assert abs(float(table.mean())) < 0.01


@pytest.mark.parametrize(
    ("partition", "sizes", "m", "values"),
    [
        ("remainder", GOWALLA, 1560, 205_568), ("balanced", GOWALLA, 803, 205_568),
        ("remainder", YELP, 2263, 296_320), ("balanced", YELP, 1157, 296_192),
        ("remainder", AMAZON, 2699, 352_384), ("balanced", AMAZON, 1376, 352_256),
    ],
)  # fmt: skip
def test_sizes_from_the_budget(partition: str, sizes: tuple[int, int], m: int, values: int) -> None:
    layer = made(*sizes, partition=partition, budget="legcf")
    assert (layer.config.m, layer.num_params()) == (m, values)
    assert layer.storage_bytes() == 4 * values


@pytest.mark.parametrize("budget", [2560, 3000, 5000, 9999])
def test_no_more_rows_would_fit(budget: int) -> None:
    rows = len(made(60, 40, budget=budget).weight)
    every = np.arange(1, 101)
    possible = every + -(-100 // every)
    assert rows * 128 <= budget
    assert not np.any((possible > rows) & (possible * 128 <= budget))


def test_a_full_table_is_the_limit() -> None:
    assert made(60, 40, budget=10**9).config.m == 100


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match="2,560 are the least"):  # 10 + 10 rows
        made(60, 40, budget=2559)
    with pytest.raises(UserError, match="too few"):
        made(60, 40, budget=2560, m=50)
    with pytest.raises(UserError, match="lower m"):
        made(60, 40, m=101)
    for options in ({"m": 0}, {"op": "concat", "dim": 7}, {"op": "xor"}):
        with pytest.raises(UserError, match="is not possible"):
            resolve("qr", overrides={"method": options})
