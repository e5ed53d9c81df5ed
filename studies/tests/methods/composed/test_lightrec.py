# SPDX-License-Identifier: Apache-2.0
"""LightRec's codes: encoding and decoding agree, gradients pass the choice, and sizes count codes."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf_studies.methods.composed.lightrec import LightRec, LightRecConfig
from tests.helpers import random_interactions

TRAIN = random_interactions(30, 20, 0.2, seed=0)


def made(**options: Any) -> LightRec:
    layer = LightRec(LightRecConfig(**{"dim": 6, "books": 3, "codewords": 8, **options}), 30, 20)
    layer.initialise(TRAIN, np.random.default_rng(0))
    return layer


@pytest.mark.parametrize("similarity", ["bilinear", "euclidean"])
class TestCoding:
    def test_decoding_gives_what_encoding_summed(self, similarity: str) -> None:
        layer = made(similarity=similarity)
        codes, rows = layer.encode(layer.teacher.detach())
        assert codes.max() < 8
        assert torch.allclose(layer.decode(codes), rows, atol=1e-6)
        layer.coded = layer.recodes = True
        assert torch.allclose(layer.table(), rows, atol=1e-6)
        layer.freeze()
        assert torch.allclose(layer.table(), rows, atol=1e-6)

    def test_the_gradient_passes_the_choice(self, similarity: str) -> None:
        layer = made(similarity=similarity)
        layer.coded = layer.recodes = True
        layer.table().square().sum().backward()
        assert layer.teacher.grad is None
        assert layer.codebook.grad is not None
        assert (layer.codebook.grad != 0).any(dim=1).all()  # through the softmax even those that nobody has
        if similarity == "bilinear":
            assert layer.similarity.grad is not None
            assert (layer.similarity.grad != 0).any(dim=(1, 2)).all()


def test_a_codeword_for_everyone_is_the_teacher() -> None:
    layer = made(books=1, codewords=50, similarity="euclidean")
    layer.codebook.data.copy_(layer.teacher)
    layer.coded = layer.recodes = True
    assert torch.allclose(layer.table(), layer.teacher, atol=1e-6)


def test_residuals_do_not_grow_where_a_book_holds_zero() -> None:
    vectors = made().teacher.detach()
    lengths = [vectors.norm(dim=1)]
    for books in (1, 2, 3):
        layer = made(books=books, similarity="euclidean")
        layer.codebook.data.copy_(made(similarity="euclidean").codebook[: books * 8])
        layer.codebook.data[::8] = 0
        lengths.append((vectors - layer.encode(vectors)[1]).norm(dim=1))
    for before, after in itertools.pairwise(lengths):
        assert (after <= before + 1e-6).all()


def test_distillation_is_the_difference_of_all_scores() -> None:
    layer = made(distil=0.5)
    layer.recode()
    assert layer.penalty() is None
    layer.coded = True
    rows, taught = layer.decode(layer.codes), layer.teacher
    wanted = 0.5 * (rows[:30] @ rows[30:].T - taught[:30] @ taught[30:].T).square().sum()
    penalty = layer.penalty()
    assert penalty is not None
    assert penalty.item() == pytest.approx(wanted.item(), rel=1e-4)


def test_what_chose_the_codes_is_not_stored() -> None:
    layer = made()
    trained = layer.total_trainable()
    layer.freeze()
    assert layer.num_params() == 3 * 8 * 6 + 38
    assert (
        layer.storage_bytes()
        == 4 * 3 * 8 * 6 + 150
        == sum(value.numel() * value.element_size() for value in layer.state_dict().values())
    )
    assert layer.total_trainable() == trained == 3 * 8 * 6 + 50 * 6 + 3 * 36
    other = LightRec(layer.config, 30, 20)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.table(), layer.table())
    linear = layer.linear_basis()
    assert linear is not None
    assert np.allclose(linear[0] @ linear[1].detach().numpy(), layer.table().detach().numpy(), atol=1e-6)


def test_sizes() -> None:
    assert LightRec.sized(LightRecConfig(budget="legcf", dim=128), 29_858, 40_981).books == 4  # type: ignore[attr-defined]
    config = LightRec.sized(LightRecConfig(budget="legcf", dim=64), 29_858, 40_981)
    layer = LightRec(config, 29_858, 40_981)  # type: ignore[arg-type]
    assert layer.books == 6
    assert layer.num_params() <= 205_678
    with pytest.raises(UserError, match="61 are the least"):
        made(books=None, budget=60)
