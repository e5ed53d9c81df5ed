"""Errors that are sentences for the person at the keyboard: what is wrong, where, and what to do."""


class UserError(Exception):
    """Something the user can mend. The command line prints it as one sentence and exits with code 2."""


class MissingExtra(UserError):
    """A feature was asked for whose optional packages are not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs optional packages: run `pip install 'legcf[{extra}]'` and try again.")
