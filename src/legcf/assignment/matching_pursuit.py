# SPDX-License-Identifier: Apache-2.0
"""Solve the paper's constraint H_full ≈ S · H_meta with sparsity inside the solver (matching pursuit).

Orthogonal least squares: t times, take the meta-embedding whose addition lowers the squared error most once all chosen
weights are refitted. Then a pass of swaps: each chosen one gives way to any other that does better beside the rest. It
works on correlations and the c × c Gram matrix, so a row costs O(d · c + t² · c).
"""

import numpy as np

from legcf.assignment.assignment import Assignment
from legcf.core import distributed
from legcf.core.arrays import FloatArray, IntArray
from legcf.core.jit import njit, prange

DEFAULT_MEMORY_CAP_MB = 256.0
_SWAP_PASSES = 1  # at c = 2000, t = 4 it keeps 98.7 % of a table's recall, without 98.1 % (docs/study.md, section 2)
_RIDGE = 1e-7  # relative to the atom's own norm; keeps near-copies among the atoms from blowing up the weights
# An atom must keep this share of its squared norm outside the span of those chosen, or weights explode.
_INDEPENDENT = 1e-3
_DEPENDENT = 1e-6  # the same, once it is computed anew in double precision
_WORTHWHILE = 1e-12  # a gain below this share of what is explained is rounding noise
_BETTER = 1.0001  # a swap must win by more than rounding, or near-copies would swap for ever


def encode(
    vectors: FloatArray,
    dictionary: FloatArray,
    t: int,
    nonnegative: bool = False,
    memory_cap_mb: float = DEFAULT_MEMORY_CAP_MB,
) -> tuple[IntArray, FloatArray]:
    """Return indices and weights (n × t) with Σ_k weights[p,k] · dictionary[indices[p,k]] ≈ vectors[p], largest first.

    Work memory is the c × c Gram matrix, a few vectors of length c a thread, and a copy of as many rows at a time as
    `memory_cap_mb` allows. A row's code never depends on the rows beside it, so ranks share them.
    """
    atoms = np.ascontiguousarray(dictionary, dtype=np.float32)
    across, gram = np.ascontiguousarray(atoms.T), atoms @ atoms.T
    norms = gram.diagonal().copy()
    least = norms * np.float32(_INDEPENDENT)
    indices = np.zeros((len(vectors), t), dtype=np.int32)
    weights = np.zeros((len(vectors), t), dtype=np.float32)
    rows = rows_within(memory_cap_mb, atoms.shape[1])
    shares = distributed.even_partition(len(vectors))
    mine = distributed.local_rows(shares)
    for start in range(mine.start, mine.stop, rows):
        block = slice(start, min(start + rows, mine.stop))
        taken = np.ascontiguousarray(vectors[block], dtype=np.float32)
        _pursue(taken, across, gram, norms, least, nonnegative, indices[block], weights[block])
    return distributed.all_gather_rows(indices, shares), distributed.all_gather_rows(weights, shares)


def solve(
    vectors: FloatArray, dictionary: FloatArray, t: int, memory_cap_mb: float = DEFAULT_MEMORY_CAP_MB
) -> Assignment:
    """Solve the assignment update with S ≥ 0."""
    indices, weights = encode(vectors, dictionary, t, nonnegative=True, memory_cap_mb=memory_cap_mb)
    return Assignment(indices, weights, len(dictionary))


def rows_within(memory_cap_mb: float, width: int) -> int:
    """Return how many float32 rows of this width fit the cap; never fewer than one."""
    return max(1, int(memory_cap_mb * 2**20 / (4 * width)))


@njit(cache=True)
def _fit(support, count, correlation, gram, inverse, weights):  # type: ignore[no-untyped-def]
    """Solve least-squares weights on the chosen atoms, and the inverse of their Gram matrix.

    Returns the energy explained, or −1 where one of the atoms lies in the span of the others.
    """
    lower = np.zeros((count, count), dtype=np.float64)
    for i in range(count):
        for j in range(i + 1):
            value = gram[support[i], support[j]] * (1 + _RIDGE if i == j else 1.0)
            for k in range(j):
                value -= lower[i, k] * lower[j, k]
            if i > j:
                lower[i, j] = value / lower[j, j]
            elif value > _DEPENDENT * gram[support[i], support[i]]:
                lower[i, i] = np.sqrt(value)
            else:
                return -1.0
    for column in range(count):
        for i in range(count):
            value = 1.0 if i == column else 0.0
            for k in range(column, i):
                value -= lower[i, k] * inverse[k, column]
            inverse[i, column] = value / lower[i, i] if i >= column else 0.0
        for i in range(count - 1, -1, -1):
            value = inverse[i, column]
            for k in range(i + 1, count):
                value -= lower[k, i] * inverse[k, column]
            inverse[i, column] = value / lower[i, i]
    energy = 0.0
    for i in range(count):
        weights[i] = 0.0
        for j in range(count):
            weights[i] += inverse[i, j] * correlation[support[j]]
        energy += weights[i] * correlation[support[i]]
    return energy


@njit(cache=True, fastmath={"contract"})
def _project(slot, support, count, gram, inverse, projection):  # type: ignore[no-untyped-def]
    """Compute ⟨u, every atom⟩ for u, the part of the atom at `slot` that is orthogonal to the other chosen ones.

    ‖u‖² = 1 / inverse[slot, slot], and the fit's share along u is weights[slot] · u. So to add or take away an atom
    is to move all residual correlations by weights[slot] · projection, and the squared norms of what the atoms keep
    outside the span by projection² · inverse[slot, slot].
    """
    projection[:] = 0
    for i in range(count):
        factor = np.float32(inverse[i, slot] / inverse[slot, slot])
        atom = gram[support[i]]
        for q in range(len(projection)):
            projection[q] += factor * atom[q]


@njit(cache=True, fastmath={"contract"})
def _move(projection, weight, inverse_norm, residual, outside):  # type: ignore[no-untyped-def]
    """Take an atom away by positive arguments, add it by negative ones."""
    along, square = np.float32(weight), np.float32(inverse_norm)
    for q in range(len(projection)):
        residual[q] += along * projection[q]
        outside[q] += square * projection[q] * projection[q]


@njit(cache=True, fastmath={"contract"}, error_model="numpy")
def _best(residual, outside, least, nonnegative, gains, excluded):  # type: ignore[no-untyped-def]
    """Return the atom with the largest fall of the squared error once all weights are refitted, and that fall."""
    for q in range(len(residual)):
        value = residual[q]
        fit = value * value / outside[q]
        gains[q] = fit if outside[q] > least[q] and (value > 0 or not nonnegative) else np.float32(0)
    for q in excluded:
        gains[q] = 0
    best, best_gain = -1, np.float32(0)
    for q in range(len(gains)):
        if gains[q] > best_gain:
            best, best_gain = q, gains[q]
    return best, best_gain


@njit(cache=True)
def _grow(correlation, gram, least, nonnegative, state):  # type: ignore[no-untyped-def]
    """Add atoms until t are chosen or none helps; with S ≥ 0, those that turn negative leave again for good."""
    support, weights, inverse, residual, outside, projection, gains = state
    t, count, energy = len(support), 0, 0.0
    tried = np.empty(3 * t, dtype=np.int64)
    for attempt in range(3 * t):
        best, gain = _best(residual, outside, least, nonnegative, gains, tried[:attempt])
        if count == t or best < 0 or gain <= _WORTHWHILE * energy:
            break
        tried[attempt] = support[count] = best
        fitted = _fit(support, count + 1, correlation, gram, inverse, weights)
        if fitted < 0:
            _fit(support, count, correlation, gram, inverse, weights)
            continue
        count, energy = count + 1, fitted
        _project(count - 1, support, count, gram, inverse, projection)
        _move(projection, -weights[count - 1], -inverse[count - 1, count - 1], residual, outside)
        while nonnegative and count > 1:
            lowest = np.argmin(weights[:count])
            if weights[lowest] >= 0:
                break
            _project(lowest, support, count, gram, inverse, projection)
            _move(projection, weights[lowest], inverse[lowest, lowest], residual, outside)
            for i in range(lowest, count - 1):
                support[i] = support[i + 1]
            count -= 1
            energy = _fit(support, count, correlation, gram, inverse, weights)
    return count


@njit(cache=True)
def _swap(correlation, gram, least, nonnegative, state, count):  # type: ignore[no-untyped-def]
    """Let every chosen atom give way to the best one beside the rest, if that one is better."""
    support, weights, inverse, residual, outside, projection, gains = state
    energy = _fit(support, count, correlation, gram, inverse, weights)
    rest = np.empty(count - 1, dtype=np.int64)
    for slot in range(count):
        old, weight, inverse_norm = support[slot], weights[slot], inverse[slot, slot]
        for i in range(count - 1):
            rest[i] = support[i if i < slot else i + 1]
        _project(slot, support, count, gram, inverse, projection)
        _move(projection, weight, inverse_norm, residual, outside)
        best, gain = _best(residual, outside, least, nonnegative, gains, rest)
        if best >= 0 and best != old and gain > _BETTER * weight * weight / inverse_norm:
            support[slot] = best
            fitted = _fit(support, count, correlation, gram, inverse, weights)
            if fitted <= energy or (nonnegative and weights[:count].min() < 0):
                support[slot] = old
                fitted = _fit(support, count, correlation, gram, inverse, weights)
            energy = fitted
            _project(slot, support, count, gram, inverse, projection)
        _move(projection, -weights[slot], -inverse[slot, slot], residual, outside)


@njit(cache=True, fastmath={"contract"})
def _correlate(vector, across, correlation):  # type: ignore[no-untyped-def]
    """Compute dictionary · vector by hand: a matrix product rounds a row differently with other rows beside it."""
    width = len(vector)
    correlation[:] = 0
    for k in range(0, width - width % 4, 4):
        v0, v1, v2, v3 = vector[k], vector[k + 1], vector[k + 2], vector[k + 3]
        a0, a1, a2, a3 = across[k], across[k + 1], across[k + 2], across[k + 3]
        for q in range(len(correlation)):
            correlation[q] += (v0 * a0[q] + v1 * a1[q]) + (v2 * a2[q] + v3 * a3[q])
    for k in range(width - width % 4, width):
        value, line = vector[k], across[k]
        for q in range(len(correlation)):
            correlation[q] += value * line[q]


@njit(cache=True)
def _pursue_row(vector, across, gram, norms, least, nonnegative, indices, weights):  # type: ignore[no-untyped-def]
    num_atoms, t = len(gram), len(indices)
    correlation = np.empty(num_atoms, dtype=np.float32)
    _correlate(vector, across, correlation)
    state = (
        np.zeros(t, dtype=np.int64),
        np.zeros(t, dtype=np.float64),
        np.zeros((t, t), dtype=np.float64),
        correlation.copy(),
        norms.copy(),
        np.empty(num_atoms, dtype=np.float32),
        np.empty(num_atoms, dtype=np.float32),
    )
    count = _grow(correlation, gram, least, nonnegative, state)
    if count > 1:
        for _ in range(_SWAP_PASSES):
            _swap(correlation, gram, least, nonnegative, state, count)
    # Largest first, by insertion: there are few, and a sort of numpy's takes the compiler seconds.
    for i in range(count):
        atom, weight, slot = state[0][i], state[1][i], i
        while slot > 0 and abs(state[1][slot - 1]) < abs(weight):
            state[0][slot], state[1][slot] = state[0][slot - 1], state[1][slot - 1]
            slot -= 1
        state[0][slot], state[1][slot] = atom, weight
    for i in range(count):
        indices[i] = state[0][i]
        weights[i] = state[1][i]


@njit(cache=True, parallel=True)
def _pursue(vectors, across, gram, norms, least, nonnegative, indices, weights):  # type: ignore[no-untyped-def]
    """Run the loop and nothing else: whatever else stood here, the compiler would try to make parallel as well."""
    for row in prange(len(vectors)):
        _pursue_row(vectors[row], across, gram, norms, least, nonnegative, indices[row], weights[row])
