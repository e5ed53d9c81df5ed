# SPDX-License-Identifier: Apache-2.0
"""Budgets: what a person may write, and what it comes to."""

import pytest

from legcf.core.errors import UserError
from legcf.embeddings.budget import stored_values
from legcf.embeddings.full_trained import FullTable
from legcf.training.registry import resolve

GOWALLA = 70_839


@pytest.mark.parametrize(
    ("budget", "values"),
    [(1000, 1000), ("legcf", 205_678), ("legcf:t=4", 347_356), ("legcf:c=1000,d=64,t=1", 64_000 + GOWALLA)],
)
def test_a_budget_is_a_number_or_the_size_of_a_legcf_model(budget: int | str, values: int) -> None:
    assert stored_values(budget, GOWALLA) == values


@pytest.mark.parametrize("budget", [0, -5, "much", "legcf:", "legcf:c=0", "legcf:x=3"])
def test_other_budgets_are_refused_with_a_sentence(budget: int | str) -> None:
    with pytest.raises(UserError, match=r"method\.budget"):
        resolve("full", overrides={"method": {"budget": budget}})


def test_the_full_table_takes_the_widest_that_fits_and_says_the_least() -> None:
    config = resolve("full", overrides={"method": {"budget": "legcf"}}).method
    assert FullTable.sized(config, 29_858, 40_981).dim == 2  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="70,839 are the least"):
        FullTable.sized(config.model_copy(update={"budget": 100}), 29_858, 40_981)
