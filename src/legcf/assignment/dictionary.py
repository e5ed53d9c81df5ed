# SPDX-License-Identifier: Apache-2.0
"""Learn codebook and assignment of any table: alternate matching pursuit (S for D) and least squares (D for S)."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from legcf.assignment.assignment import Assignment
from legcf.assignment.matching_pursuit import DEFAULT_MEMORY_CAP_MB, encode, rows_within
from legcf.core import distributed
from legcf.core.arrays import FloatArray, gram
from legcf.core.errors import UserError
from legcf.core.progress import progress

DEFAULT_ROUNDS = 8  # of pursuit and fit; other numbers have no measurement in docs/study.md
_START_ROUNDS = 5  # of k-means: the pursuit's rounds mend the rest
_START_ROWS_PER_ATOM = 256
_START_BLOCK_MB = 16  # of products at a time: more are no faster
_RIDGE = 1e-3  # relative to an atom's mean use; pulls towards the previous atom, so that a hardly used one stays put
_LEAST_USE = 2  # an atom that fewer rows use explains no pattern, only a row
_FLOOR = 1e-9  # relative to the largest singular value


@dataclass(frozen=True, eq=False)
class Balance:
    """Hold a basis for coding, as d × k matrices that rows are multiplied by, and the metric m that leads out of it.

    With U Vᵀ = P Σ Qᵀ the rows become P Σ^power and Q Σ^power, and m = Σ^(½ − power): user · diag(m²) · item are the
    scores as they were. A squared error in this space is, for power 1, the error in scores: that of a user measured in
    the items' Gram matrix and the reverse. Power ½ only makes the two sides equally large. Multiply a codebook learnt
    here by m, and plain inner products are scores.
    """

    onto_users: FloatArray
    onto_items: FloatArray
    metric: FloatArray


def find_balance(
    user_vectors: FloatArray, item_vectors: FloatArray, power: float = 1.0, least: float | None = None
) -> Balance:
    """Return the basis for these two sides; directions whose share of Σ is at most `least` are left out."""
    user_root, item_root = _gram_root(user_vectors), _gram_root(item_vectors)
    left, sizes, right = np.linalg.svd(user_root @ item_root.T)
    kept = max(1, np.count_nonzero(sizes > least * sizes[0])) if least is not None else len(sizes)
    sizes = np.maximum(sizes, sizes[0] * _FLOOR or 1.0)[:kept]
    # P Σ = U · VᵀQ and Q Σ = V · UᵀP, both from d × d matrices alone.
    onto_users = item_root.T @ right[:kept].T * sizes ** (power - 1)
    onto_items = user_root.T @ left[:, :kept] * sizes ** (power - 1)
    metric = sizes ** (0.5 - power)
    return Balance(onto_users.astype(np.float32), onto_items.astype(np.float32), metric.astype(np.float32))


def balance(
    user_vectors: FloatArray, item_vectors: FloatArray, power: float = 1.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return users, items and the metric m in the basis of `find_balance`."""
    basis = find_balance(user_vectors, item_vectors, power)
    return user_vectors @ basis.onto_users, item_vectors @ basis.onto_items, basis.metric


def _gram_root(vectors: FloatArray) -> NDArray[np.float64]:
    """Return R with RᵀR = XᵀX, summed in float64 by blocks of rows."""
    values, basis = np.linalg.eigh(gram(vectors))
    root: NDArray[np.float64] = np.sqrt(np.maximum(values, 0))[:, None] * basis.T
    return root


def learn(
    vectors: FloatArray,
    c: int,
    t: int,
    rng: np.random.Generator,
    rounds: int = DEFAULT_ROUNDS,
    nonnegative: bool = False,
    memory_cap_mb: float = DEFAULT_MEMORY_CAP_MB,
    quiet: bool = True,
) -> tuple[FloatArray, Assignment]:
    """Learn a codebook (c × d, unit rows) and an assignment of at most t weights per row, S · codebook ≈ vectors.

    Work memory beside the result stays within `memory_cap_mb` and three c × c matrices.
    """
    check_sizes(c, t, len(vectors))
    codebook = _start(vectors, c, rng, nonnegative, memory_cap_mb)
    with progress("Coding", rounds + 1, "rounds", quiet) as task:
        for left in range(rounds, 0, -1):
            assignment = Assignment(*encode(vectors, codebook, t, nonnegative, memory_cap_mb), c)
            revived = _revive(vectors, codebook, assignment, rng, memory_cap_mb) if left > 2 else 0
            if not revived:
                # With new atoms in it the codebook no longer fits these codes: the next round codes anew first.
                codebook = fit(vectors, codebook, assignment, memory_cap_mb)
            codebook = _unit(codebook)
            task.advance()
        assignment = Assignment(*encode(vectors, codebook, t, nonnegative, memory_cap_mb), c)
        task.advance()
    return codebook, assignment


def check_sizes(c: int, t: int, rows: int) -> None:
    """Refuse a codebook of more rows than all, or of fewer than a row takes weights of."""
    if c < 1 or t < 1:
        raise UserError(f"c = {c} and t = {t} are not possible: both start at 1.")
    if t > c:
        raise UserError(f"t = {t} weights per row cannot be taken from a codebook of c = {c}: choose t ≤ c.")
    if c > rows:
        raise UserError(f"A table of {rows:,} rows cannot fill a codebook of c = {c:,}: choose c ≤ {rows:,}.")


def fit(
    vectors: FloatArray, codebook: FloatArray, assignment: Assignment, memory_cap_mb: float = DEFAULT_MEMORY_CAP_MB
) -> FloatArray:
    """Solve the codebook that fits the codes best: (SᵀS + λI) D = SᵀH + λ D_before."""
    matrix = assignment.to_csr()
    uses = (matrix.T @ matrix).toarray().astype(np.float64)
    ridge = _RIDGE * max(float(np.trace(uses)), np.finfo(np.float64).tiny) / len(uses)
    uses[np.diag_indices(len(uses))] += ridge
    right = ridge * codebook.astype(np.float64)
    rows = rows_within(memory_cap_mb / 4, vectors.shape[1])
    for start in range(0, len(vectors), rows):
        right += matrix[start : start + rows].T @ vectors[start : start + rows]
    fitted: FloatArray = cho_solve(cho_factor(uses, overwrite_a=True), right, overwrite_b=True).astype(np.float32)
    return fitted


def _revive(
    vectors: FloatArray, codebook: FloatArray, assignment: Assignment, rng: np.random.Generator, memory_cap_mb: float
) -> int:
    """Restart atoms that hardly any row uses at what badly coded rows still lack; returns how many."""
    use = np.bincount(assignment.indices[assignment.weights != 0], minlength=len(codebook))
    idle = np.flatnonzero(use < _LEAST_USE)
    if not len(idle):
        return 0
    matrix = assignment.to_csr()
    missed = np.empty(len(vectors), dtype=np.float64)
    rows = rows_within(memory_cap_mb / 4, vectors.shape[1])
    for start in range(0, len(vectors), rows):
        block = slice(start, start + rows)
        missed[block] = np.square(vectors[block] - matrix[block] @ codebook).sum(axis=1)
    # Nothing is lacking where rows are coded exactly, up to rounding: such atoms may stay idle.
    missed[missed <= 1e-12 * np.square(np.linalg.norm(vectors[:1])) + np.finfo(np.float32).tiny] = 0
    idle = idle[: np.count_nonzero(missed)]
    if len(idle):
        picked = rng.choice(len(vectors), len(idle), replace=False, p=missed / missed.sum())
        codebook[idle] = vectors[picked] - matrix[picked] @ codebook
    return len(idle)


def _start(
    vectors: FloatArray, c: int, rng: np.random.Generator, nonnegative: bool, memory_cap_mb: float
) -> FloatArray:
    """Find centres of spherical k-means; where signs are free, a row joins the centre with the largest |cosine|."""
    affordable = max(c, rows_within(memory_cap_mb / 4, vectors.shape[1]))
    picked = rng.choice(len(vectors), min(len(vectors), _START_ROWS_PER_ATOM * c, affordable), replace=False)
    directions = _unit(vectors[np.sort(picked)])
    centres = directions[rng.choice(len(directions), c, replace=False)]
    rows = rows_within(min(memory_cap_mb / 4, _START_BLOCK_MB), c)
    for _ in range(_START_ROUNDS):
        nearest = np.empty(len(directions), dtype=np.int64)
        cosines = np.empty(len(directions), dtype=np.float32)
        shares = distributed.even_partition(len(directions))
        mine = distributed.local_rows(shares)
        for start in range(mine.start, mine.stop, rows):
            block = slice(start, min(start + rows, mine.stop))
            products = directions[block] @ centres.T
            nearest[block] = (products if nonnegative else np.abs(products, out=products)).argmax(axis=1)
            cosines[block] = np.einsum("pj,pj->p", directions[block], centres[nearest[block]])
        distributed.all_gather_rows(nearest, shares)
        distributed.all_gather_rows(cosines, shares)
        members = sp.csr_matrix((cosines, (nearest, np.arange(len(directions)))), shape=(c, len(directions)))
        centres = members @ directions
        empty = np.flatnonzero(~centres.any(axis=1))
        centres[empty] = directions[rng.choice(len(directions), len(empty))]
        centres = _unit(centres)
    return centres


def _unit(rows: FloatArray) -> FloatArray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: FloatArray = (rows / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32, copy=False)
    return unit
