# SPDX-License-Identifier: Apache-2.0
"""Tables with a width for every entity, and what is told of their sizes."""

import numpy as np
import pytest
import torch

from legcf.core.errors import UserError
from legcf.embeddings.sizes import plot_sizes, sizes_by_popularity
from legcf_studies.methods.sized.widths import WidthConfig, WidthTable
from tests.helpers import interactions

WIDTHS = [0, 1, 4, 2, 3]


@pytest.fixture
def layer() -> WidthTable:
    """Two users and three items of width at most 4."""
    made = WidthTable(WidthConfig(name="widths", dim=4), 2, 3)
    made.initialise(interactions([(0, 0)], 2, 3), np.random.default_rng(0))
    made.set_widths(np.array(WIDTHS))
    return made


def test_an_entity_is_the_first_values_of_its_row(layer: WidthTable) -> None:
    table = layer.table().detach()
    for row, width in enumerate(WIDTHS):
        assert torch.equal(table[row, :width], layer.weight[row, :width])
        assert not table[row, width:].any()
    ids = torch.tensor([4, 0, 4])
    assert torch.equal(layer.rows(ids), layer.table()[ids])


def test_values_behind_a_width_have_no_gradient(layer: WidthTable) -> None:
    layer.table().sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.sum(dim=1).tolist() == WIDTHS


def test_what_is_stored(layer: WidthTable) -> None:
    assert layer.num_params() == sum(WIDTHS) == layer.entity_sizes().sum()
    assert layer.storage_bytes() == 4 * sum(WIDTHS) + 5 + 8  # a byte for a width, and the seed
    assert layer.total_trainable() == 5 * 4


@pytest.mark.parametrize("widths", [[1, 2, 3, 4], [5, 1, 1, 1, 1], [-1, 1, 1, 1, 1]])
def test_widths_that_do_not_fit(widths: list[int], layer: WidthTable) -> None:
    with pytest.raises(ValueError, match="5 widths between 0 and 4"):
        layer.set_widths(np.array(widths))


def test_sizes_from_the_rarest_to_the_most_popular() -> None:
    train = interactions([(0, 0), (1, 0), (1, 1), (1, 2)], 2, 3)
    told = sizes_by_popularity(np.array([1, 7, 5, 2, 4]), train)
    assert told["mean"] == pytest.approx(19 / 5)
    assert [group["mean"] for group in told["users"]] == [1, 7]
    assert [group["mean"] for group in told["items"]] == [2, 4, 5]
    assert [group["most_pairs"] for group in told["items"]] == [1, 1, 2]


def test_groups_hold_equally_many() -> None:
    train = interactions([(user, 0) for user in range(25)], 25, 1)
    told = sizes_by_popularity(np.arange(26), train)
    assert len(told["users"]) == 10
    assert sum(group["entities"] for group in told["users"]) == 25
    assert {group["entities"] for group in told["users"]} == {2, 3}


def test_a_picture(tmp_path) -> None:
    sizes = sizes_by_popularity(np.array([1, 7, 5, 2, 4]), interactions([(0, 0), (1, 1)], 2, 3))
    plot_sizes({"one": sizes, "other": sizes}, tmp_path / "sizes.png")
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match=r"\.png"):
        plot_sizes({"one": sizes}, tmp_path / "sizes.xyz")
