# SPDX-License-Identifier: Apache-2.0
"""Solve c and t from a number of stored values."""

from dataclasses import dataclass

from legcf.core.errors import UserError

DEFAULT_C, DEFAULT_T = 500, 4
_CODE_SHARE = 0.7
_LARGEST_T = 32
_LADDER_STEP = 1.25
GRAM_BYTES = 20  # for each of c × c entries: a Gram matrix, the normal equations and their factor


@dataclass(frozen=True)
class Sizes:
    """Hold the size of a codebook, c rows, and of codes, t weights per entity."""

    c: int
    t: int

    def values(self, rows: int, width: int) -> int:
        """Return c·d + t·N."""
        return self.c * width + self.t * rows


def usual(rows: int, width: int, c: int | None = None, t: int | None = None) -> Sizes:
    """Return the default sizes where c or t is None; a small table gets the codebook that halves it."""
    terms = DEFAULT_T if t is None else t
    if c is None:
        c = min(DEFAULT_C, max(terms, (rows * width // 2 - terms * rows) // width))
    return Sizes(c, min(terms, c) if t is None else terms)


def for_budget(budget: int, rows: int, width: int, c: int | None = None, t: int | None = None) -> Sizes:
    """Return c and t with c·d + t·N ≤ budget; one of them may be fixed.

    The rule: t is the largest whose codes take at most `_CODE_SHARE` of the budget (at least 1), and the codebook gets
    the rest. Measured in docs/compress.md: error and ranking change little around it.
    """
    if c is not None and t is not None:
        raise UserError("Give a budget, or c and t: with both there is nothing left to solve.")
    smallest = rows + width
    if budget < smallest:
        raise UserError(
            f"A budget of {budget:,} values is too small: one weight for each of {rows:,} rows and a codebook of one "
            f"row of {width:,} take {smallest:,}."
        )
    if c is not None:
        t = (budget - c * width) // rows
        if t < 1:
            raise UserError(f"A codebook of c = {c:,} leaves no weight for each of {rows:,} rows: choose a smaller c.")
        return Sizes(c, min(t, c))
    if t is None:
        t = min(max(1, int(_CODE_SHARE * budget / rows)), _LARGEST_T)
        while t > 1 and (budget - t * rows) // width < t:
            t -= 1
    c = min((budget - t * rows) // width, rows)
    if c < t:
        raise UserError(f"A budget of {budget:,} leaves c = {c:,} for t = {t}: choose a smaller t or a larger budget.")
    return Sizes(c, t)


def ladder(rows: int, width: int, largest_c: int) -> list[Sizes]:
    """Return sizes from a hundredth of the table to most of it, each about a quarter larger than the one before."""
    full = rows * width
    budget = max(full / 200, rows * 1.5 + width)
    rungs: list[Sizes] = []
    while budget < full * 0.8:
        sizes = for_budget(int(budget), rows, width)
        sizes = Sizes(min(sizes.c, largest_c), sizes.t)
        if sizes.t <= sizes.c and sizes not in rungs:
            rungs.append(sizes)
        budget *= _LADDER_STEP
    return rungs


def largest_codebook(memory_mb: float) -> int:
    """Return the largest c whose c × c matrices fit; the counterpart of `checks.check_memory`."""
    return max(1, int((memory_mb * 2**20 / GRAM_BYTES) ** 0.5))
