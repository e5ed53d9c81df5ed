"""Orthogonal matching pursuit: the paper's constraint H_full ≈ S · H_meta solved with sparsity inside the solver.

t times: pick the meta-embedding best correlated with what is still unexplained, then refit all chosen weights by least
squares. It works on correlations and the c × c Gram matrix, so after one product X · Dᵀ a row costs O(t · c).
"""

import numpy as np
from numba import njit, prange

from legcf.assignment.assignment import Assignment, FloatArray, IntArray

DEFAULT_MEMORY_CAP_MB = 256.0
_RIDGE = 1e-7  # relative to the atom's own norm; keeps near-copies among the atoms from blowing up the weights


def encode(
    vectors: FloatArray,
    dictionary: FloatArray,
    t: int,
    nonnegative: bool = False,
    memory_cap_mb: float = DEFAULT_MEMORY_CAP_MB,
) -> tuple[IntArray, FloatArray]:
    """Indices and weights (n × t) with Σ_k weights[p,k] · dictionary[indices[p,k]] ≈ vectors[p], largest first.

    Rows are taken in batches so that their correlations with all atoms stay within `memory_cap_mb`.
    """
    dictionary = np.ascontiguousarray(dictionary, dtype=np.float32)
    gram = dictionary @ dictionary.T
    indices = np.zeros((len(vectors), t), dtype=np.int32)
    weights = np.zeros((len(vectors), t), dtype=np.float32)
    rows = rows_within(memory_cap_mb, len(dictionary))
    for start in range(0, len(vectors), rows):
        block = slice(start, start + rows)
        correlations = np.ascontiguousarray(vectors[block], dtype=np.float32) @ dictionary.T
        _pursue(correlations, gram, nonnegative, indices[block], weights[block])
    return indices, weights


def solve(
    vectors: FloatArray, dictionary: FloatArray, t: int, memory_cap_mb: float = DEFAULT_MEMORY_CAP_MB
) -> Assignment:
    """The assignment update with S ≥ 0."""
    indices, weights = encode(vectors, dictionary, t, nonnegative=True, memory_cap_mb=memory_cap_mb)
    return Assignment(indices, weights, len(dictionary))


def rows_within(memory_cap_mb: float, width: int) -> int:
    """How many float32 rows of this width fit the cap; never fewer than one."""
    return max(1, int(memory_cap_mb * 2**20 / (4 * width)))


@njit(cache=True)
def _solve_positive_definite(matrix, right, size):  # type: ignore[no-untyped-def]
    """Cholesky in place on the leading block; the solution replaces `right`."""
    for i in range(size):
        for j in range(i + 1):
            value = matrix[i, j]
            for k in range(j):
                value -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = np.sqrt(max(value, 1e-30)) if i == j else value / matrix[j, j]
    for i in range(size):
        for k in range(i):
            right[i] -= matrix[i, k] * right[k]
        right[i] /= matrix[i, i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            right[i] -= matrix[k, i] * right[k]
        right[i] /= matrix[i, i]


@njit(cache=True)
def _refit(chosen, count, correlation, gram, matrix, weights):  # type: ignore[no-untyped-def]
    for i in range(count):
        weights[i] = correlation[chosen[i]]
        for j in range(count):
            matrix[i, j] = gram[chosen[i], chosen[j]]
        matrix[i, i] *= 1 + _RIDGE
    _solve_positive_definite(matrix, weights, count)


@njit(cache=True, parallel=True)
def _pursue(correlations, gram, nonnegative, indices, weights):  # type: ignore[no-untyped-def]
    num_rows, num_atoms = correlations.shape
    t = indices.shape[1]
    inverse_norm = np.zeros(num_atoms, dtype=np.float32)
    for q in range(num_atoms):
        if gram[q, q] > 0:
            inverse_norm[q] = 1 / np.sqrt(gram[q, q])
    for row in prange(num_rows):
        correlation = correlations[row]
        residual = correlation.copy()
        barred = np.zeros(num_atoms, dtype=np.bool_)
        chosen = np.zeros(t, dtype=np.int64)
        values = np.zeros(t, dtype=np.float64)
        matrix = np.zeros((t, t), dtype=np.float64)
        count = 0
        for _ in range(t):
            best, best_gain = -1, np.float32(1e-12)
            for q in range(num_atoms):
                gain = residual[q] * inverse_norm[q]
                if not nonnegative:
                    gain = abs(gain)
                if gain > best_gain and not barred[q]:
                    best, best_gain = q, gain
            if best < 0:
                break
            barred[best] = True
            chosen[count] = best
            count += 1
            _refit(chosen, count, correlation, gram, matrix, values)
            while nonnegative and count > 1:
                lowest = 0
                for i in range(1, count):
                    if values[i] < values[lowest]:
                        lowest = i
                if values[lowest] >= 0:
                    break
                for i in range(lowest, count - 1):
                    chosen[i] = chosen[i + 1]
                count -= 1
                _refit(chosen, count, correlation, gram, matrix, values)
            residual[:] = correlation
            for i in range(count):
                weight = np.float32(values[i])
                atom = gram[chosen[i]]
                for q in range(num_atoms):
                    residual[q] -= weight * atom[q]
        order = np.argsort(-np.abs(values[:count]))
        for i in range(count):
            value = values[order[i]]
            indices[row, i] = chosen[order[i]]
            weights[row, i] = max(value, 0.0) if nonnegative else value
