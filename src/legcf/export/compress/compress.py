# SPDX-License-Identifier: Apache-2.0
"""Code a table: balance users and items, learn codebook and codes, round them as they will be stored."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from legcf.assignment.assignment import Assignment
from legcf.assignment.dictionary import DEFAULT_ROUNDS, Balance, check_sizes, find_balance, learn
from legcf.assignment.matching_pursuit import encode, rows_within
from legcf.core.arrays import FloatArray, Matrix
from legcf.core.errors import UserError
from legcf.core.files import reserve
from legcf.export.compress.checks import check_memory, check_table
from legcf.export.compress.sizes import Sizes, for_budget, usual
from legcf.modelfile.served_model import DTYPES
from legcf.ranking.precision import rounded

DEFAULT_MEMORY_MB = 512.0
_DTYPES = tuple(dtype for dtype in DTYPES if dtype != "float32")  # which would not make a table small
_LEAST_DIRECTION = 1e-6  # share of the largest singular value; what lies below is float32 noise
_ERROR_ROWS = 1024
_LARGEST = 6e4  # what float16 and the model file hold


@dataclass(frozen=True, eq=False)
class Compressed:
    """Hold a coded table: row p is Σ_k weights[p,k] · codebook[indices[p,k]], and inner products are the scores.

    Vectors come back in another basis than they went in, the same for users and items; scores do not depend on it.
    """

    codebook: FloatArray
    users: Assignment | None
    items: Assignment
    dtype: str
    original_width: int
    relative_error: float
    """‖H − S·D‖ / ‖H‖ over all rows; with both sides each row is measured by the scores it gives."""
    score_error: float | None
    """‖scores − coded scores‖ / ‖scores‖ over every user and item."""

    @property
    def num_rows(self) -> int:
        return len(self.items.indices) + (0 if self.users is None else len(self.users.indices))

    @property
    def sizes(self) -> Sizes:
        return Sizes(len(self.codebook), self.items.per_entity)

    @property
    def num_values(self) -> int:
        """Return c·d + t·N, the paper's count."""
        return self.sizes.values(self.num_rows, self.codebook.shape[1])

    @property
    def num_values_before(self) -> int:
        return self.num_rows * self.original_width

    @property
    def user_vectors(self) -> FloatArray | None:
        return None if self.users is None else self.users.compose(self.codebook)

    @property
    def item_vectors(self) -> FloatArray:
        return self.items.compose(self.codebook)


def compress(
    user_vectors: Matrix | None,
    item_vectors: Matrix,
    c: int | None = None,
    t: int | None = None,
    *,
    budget: int | None = None,
    seed: int = 0,
    dtype: str = "int8",
    rounds: int = DEFAULT_ROUNDS,
    keep_zero_rows: bool = False,
    memory_cap_mb: float = DEFAULT_MEMORY_MB,
    quiet: bool = True,
) -> Compressed:
    """Turn vectors whose inner products rank into a codebook of c rows and t weights for every entity.

    The same seed gives the same codes.

    Args:
        user_vectors: A row for each user (U × d); None codes the items alone.
        item_vectors: A row for each item (I × d).
        c: Rows of the codebook; 500 by default.
        t: Weights for each user and item; 4 by default.
        budget: Stored values c·d + t·N that `c` and `t` are solved from.
        seed: Of the codebook's first rows.
        dtype: How the codebook is stored, `int8` or `float16`.
        rounds: How often codebook and codes are fitted to each other.
        keep_zero_rows: Store rows of zeros without weights instead of refusing them.
        memory_cap_mb: Memory beside the table and the codes; a table that does not fit it is worked on in a
            temporary file.
        quiet: Whether to show no progress.

    Returns:
        The coded table, with what it costs and how far it is from the original.

    Raises:
        UserError: The table has values that are not finite, or sizes do not go together.

    Example:
        ```python
        coded = legcf.compress(user_vectors, item_vectors, c=500, t=4)
        coded.num_values, coded.relative_error
        ```
    """
    check_table(user_vectors, item_vectors, keep_zero_rows)
    if dtype not in _DTYPES:
        raise UserError(f"Unknown dtype {dtype!r}: choose {' or '.join(_DTYPES)}.")
    basis = _basis(user_vectors, item_vectors)
    count = len(item_vectors) + (0 if user_vectors is None else len(user_vectors))
    width = len(basis.metric)
    sizes = usual(count, width, c, t) if budget is None else for_budget(budget, count, width, c, t)
    check_sizes(sizes.c, sizes.t, count)
    check_memory(sizes.c, memory_cap_mb)
    rng = np.random.default_rng(seed)
    split = count - len(item_vectors)
    with _balanced(user_vectors, item_vectors, basis, memory_cap_mb) as vectors:
        learnt, assignment = learn(vectors, sizes.c, sizes.t, rng, rounds, False, memory_cap_mb / 2, quiet)
        rows = _Rows(vectors, split, basis.metric)
        codebook, assignment = _as_stored(rows, learnt, assignment, dtype, memory_cap_mb / 2)
        users = _part(assignment, slice(0, split)) if user_vectors is not None else None
        items = _part(assignment, slice(split, None))
        errors = _errors(rows, codebook, assignment)
    score_error = errors[1] if users is not None else None
    return Compressed(codebook, users, items, dtype, int(item_vectors.shape[1]), errors[0], score_error)


def _basis(users: Matrix | None, items: Matrix) -> Balance:
    """Return the coding space, scaled so that no square in it can overflow, whatever the scale of the table.

    With one side there is nothing to balance: the space has its axes, so that directions without weight fall away too.
    """
    if users is not None:
        basis = find_balance(users, items, least=_LEAST_DIRECTION)  # type: ignore[arg-type]
    else:
        axes = find_balance(items, items, power=0.5, least=_LEAST_DIRECTION**2)  # type: ignore[arg-type]
        basis = Balance(axes.onto_items, axes.onto_items, np.ones_like(axes.metric))
    size = np.abs(basis.onto_users).max() or np.float32(1)
    return Balance(basis.onto_users / size, basis.onto_items / size, basis.metric * size)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Hold all rows in the coding space, users first."""

    vectors: FloatArray
    split: int
    """The first item's row."""
    metric: FloatArray
    """What takes a row out of the space, by multiplication."""


@contextmanager
def _balanced(users: Matrix | None, items: Matrix, basis: Balance, memory_cap_mb: float) -> Iterator[FloatArray]:
    """Yield all rows in the coding space, users first; in a temporary file when they take more than half the cap."""
    count, width = len(items) + (0 if users is None else len(users)), len(basis.metric)
    with tempfile.TemporaryDirectory(prefix="legcf-compress-") as folder:
        vectors: FloatArray
        if 4 * count * width <= memory_cap_mb * 2**19:
            vectors = np.empty((count, width), dtype=np.float32)
        else:
            vectors = np.memmap(Path(folder) / "rows", np.float32, "w+", shape=(count, width))
            reserve(Path(folder) / "rows")
        row = 0
        step = rows_within(memory_cap_mb / 8, items.shape[1])
        for matrix, onto in ((users, basis.onto_users), (items, basis.onto_items)):
            for start in range(0, 0 if matrix is None else len(matrix), step):
                assert matrix is not None
                block = np.asarray(matrix[start : start + step], dtype=np.float32)
                vectors[row : row + len(block)] = block @ onto
                row += len(block)
        yield vectors
        del vectors


def _as_stored(
    rows: _Rows, learnt: FloatArray, assignment: Assignment, dtype: str, memory_cap_mb: float
) -> tuple[FloatArray, Assignment]:
    """Take the codebook out of the coding space and round it; then code once more, which makes up for the rounding.

    A factor moves between weights and codebook until their largest values are equal, where float16 is at its best.
    """
    metric = rows.metric
    out = learnt * metric
    largest = float(np.abs(out).max()) * float(np.abs(assignment.weights).max(initial=0))
    factor = np.sqrt(largest) / max(float(np.abs(out).max()), np.finfo(np.float32).tiny) or 1.0
    if np.sqrt(largest) > _LARGEST or (dtype == "float16" and 0 < np.sqrt(largest) < 1e-2):
        raise UserError(
            f"The vectors of this table reach {largest:.1e}, which {dtype} cannot hold: multiply all of them by "
            f"{1 / largest:.0e} first; rankings do not change."
        )
    codebook = rounded(out * np.float32(factor), dtype)
    book = codebook / (metric * np.float32(factor))
    indices, weights = encode(rows.vectors, book, assignment.per_entity, False, memory_cap_mb)
    weights /= np.float32(factor)
    # The file keeps the two sides apart, each with a scale of its own.
    for side in (slice(0, rows.split), slice(rows.split, None)):
        weights[side] = rounded(weights[side], dtype)
    return codebook, Assignment(indices, weights, len(codebook))


def _part(assignment: Assignment, rows: slice) -> Assignment:
    return Assignment(assignment.indices[rows], assignment.weights[rows], assignment.num_buckets)


def _errors(rows: _Rows, codebook: FloatArray, assignment: Assignment) -> tuple[float, float]:
    """Return the relative error of the rows, and of all scores: ‖UVᵀ − ÛV̂ᵀ‖² follows from d × d matrices alone."""
    vectors, split, metric = rows.vectors, rows.split, rows.metric
    width = len(metric)
    missed = total = 0.0
    true, cross, coded = (np.zeros((2, width, width)) for _ in range(3))
    for side, (first, last) in enumerate(((0, split), (split, len(vectors)))):
        for start in range(first, last, _ERROR_ROWS):
            block = slice(start, min(start + _ERROR_ROWS, last))
            exact: NDArray[np.float64] = vectors[block].astype(np.float64)
            approximate = _part(assignment, block).compose(codebook).astype(np.float64)
            missed += float(np.square(exact - approximate / metric).sum())
            total += float(np.square(exact).sum())
            exact *= metric
            true[side] += exact.T @ exact
            cross[side] += exact.T @ approximate
            coded[side] += approximate.T @ approximate
    scores = float((true[0] * true[1]).sum())
    missing = scores - 2 * float((cross[0] * cross[1]).sum()) + float((coded[0] * coded[1]).sum())
    return _ratio(missed, total), _ratio(missing, scores)


def _ratio(missed: float, total: float) -> float:
    return float(np.sqrt(max(missed, 0.0) / total)) if total else 0.0
