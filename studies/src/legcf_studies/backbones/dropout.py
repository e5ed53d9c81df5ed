# SPDX-License-Identifier: Apache-2.0
"""Drop values by a function of a seed and a position: no mask is stored, and threads do not change what is dropped.

Every call draws one seed from its generator. Values that stay are divided by the chance to stay.
"""

from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch

from legcf.core.arrays import FloatArray
from legcf.core.jit import njit, prange
from legcf.graph.operator import Operator

_CHUNK = 1 << 14  # values a thread takes at a time
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # SplitMix64, Steele et al. 2014
_BY_30, _BY_27, _BY_31 = np.uint64(30), np.uint64(27), np.uint64(31)


def dropped(rows: torch.Tensor, rate: float, rng: np.random.Generator | None) -> torch.Tensor:
    """Set every value to zero with chance `rate`, differentiable; nothing happens without a generator."""
    if rng is None or rate == 0:
        return rows
    result: torch.Tensor = _Dropped.apply(rows, rate, _seed(rng))  # type: ignore[no-untyped-call]
    return result


def thinned(operator: Operator, rate: float, rng: np.random.Generator | None) -> Operator:
    """Leave out every edge (each direction by itself) with chance `rate`; the operator's indices are shared."""
    if rng is None or rate == 0:
        return operator
    weights = _kept(operator.matrix.data, rate, _seed(rng))
    matrix, turned = operator.matrix, _turned(operator)
    result, back = (
        Operator(sp.csr_matrix((data, of.indices, of.indptr), shape=of.shape, copy=False), False)
        for data, of in ((weights, matrix), (weights[turned.data], turned))
    )
    result.transposed = back
    return result


_turned_matrices: WeakKeyDictionary[Operator, sp.csr_matrix] = WeakKeyDictionary()


def _turned(operator: Operator) -> sp.csr_matrix:
    """Return the transposed matrix whose values say where each weight stands in the operator's; made once."""
    if operator not in _turned_matrices:
        matrix = operator.matrix
        positions = np.arange(matrix.nnz, dtype=matrix.indices.dtype)
        turned = sp.csr_matrix((positions, matrix.indices, matrix.indptr), shape=matrix.shape).T.tocsr()
        _turned_matrices[operator] = turned
    return _turned_matrices[operator]


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, rate, seed):  # type: ignore[no-untyped-def]
        ctx.rate, ctx.seed = rate, seed
        return torch.from_numpy(_kept(rows.detach().contiguous().numpy(), rate, seed))

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return torch.from_numpy(_kept(gradient.contiguous().numpy(), ctx.rate, ctx.seed)), None, None


def _seed(rng: np.random.Generator) -> np.uint64:
    return rng.integers(2**64, dtype=np.uint64)


def _kept(values: FloatArray, rate: float, seed: np.uint64) -> FloatArray:
    result = np.empty_like(values)
    _keep(values.ravel(), np.uint64(rate * 2.0**64), np.float32(1 / (1 - rate)), seed, result.ravel())
    return result


@njit(cache=True, parallel=True)
def _keep(values, threshold, scale, seed, result):  # type: ignore[no-untyped-def]
    for chunk in prange(-(-len(values) // _CHUNK)):
        for position in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(values))):
            mixed = seed + np.uint64(position) * _STEP
            mixed = (mixed ^ (mixed >> _BY_30)) * _FIRST
            mixed = (mixed ^ (mixed >> _BY_27)) * _SECOND
            mixed ^= mixed >> _BY_31
            result[position] = values[position] * scale if mixed >= threshold else np.float32(0)
