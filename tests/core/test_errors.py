# SPDX-License-Identifier: Apache-2.0
"""Sentences name Python's arguments to those who call from Python, and options to those who type commands."""

import pytest

from legcf.core.errors import UserError, in_python, python_arguments


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        ("say `--no-header`, or `--header` if it is one", "say `header=False`, or `header=True` if it is one"),
        ("by default `--user-col 1 --item-col 2`", "by default `user_col='1', item_col='2'`"),
        ("use `--date-format '%d %b %Y'`", "use `date_format='%d %b %Y'`"),
        ("choose `--protocol ratio`, or", "choose `protocol='ratio'`, or"),
        ("leave `--half-life` out", "leave `half_life` out"),
        ("`--min-rating 4` keeps", "`min_rating=4` keeps"),
        ("leave out --dim.", "leave out dim."),
        ("`legcf train DATA --out RUN` makes one", "`legcf train DATA --out RUN` makes one"),
        ("nothing of the kind -- here", "nothing of the kind -- here"),
    ],
)
def test_options_become_arguments(typed: str, called: str) -> None:
    assert in_python(typed) == called


def test_both_sentences_are_kept() -> None:
    @python_arguments
    def outer() -> None:
        inner()

    @python_arguments
    def inner() -> None:
        raise UserError("raise `--k-core 2`")

    with pytest.raises(UserError, match="raise `k_core=2`") as error:
        outer()
    assert error.value.typed == "raise `--k-core 2`"
