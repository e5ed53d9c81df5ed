# SPDX-License-Identifier: Apache-2.0
"""Define errors that are sentences for the person at the keyboard: what is wrong, where, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

_TRAINING_PACKAGES = frozenset({"numba", "polars", "psutil", "pymetis", "safetensors", "scipy", "torch"})


class UserError(Exception):
    """Report something the user can mend. The command line prints it as one sentence and exits with code 2.

    Example:
        ```python
        try:
            Recommender().fit("ratings.csv")
        except UserError as error:
            print(error)  # what is wrong, where, and what to do
        ```
    """


class MissingExtra(UserError):
    """Report a feature whose optional packages are not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs optional packages: run `pip install 'legcf[{extra}]'` and try again.")


@contextmanager
def training_packages_for(feature: str) -> Iterator[None]:
    """Turn the lack of a package that only training needs into a `MissingExtra` of `feature`."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _TRAINING_PACKAGES:
            raise MissingExtra(feature, "train") from error
        raise
