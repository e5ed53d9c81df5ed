# SPDX-License-Identifier: Apache-2.0
"""The vectors of one side, users or items: coded over the shared codebook, or as the full table. Numpy only."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, Positions
from legcf.ranking.tables.packing import bits_for, quantise_table, rotated, row_scales, table_levels

_BLOCK = 1024  # rows worked on at once: they stay in the cache, and no N × d table ever stands in memory


class EmbeddingTable(Protocol):
    """What scoring needs to know of a side."""

    def __len__(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def packed_bytes(self) -> int:
        """What a file needs for them, a shared codebook included."""

    @property
    def codes(self) -> "CodebookTable | None":
        """Give the table itself where its rows are codes over a codebook; None for any other kind."""

    def vectors(self, which: Positions | slice) -> FloatArray:
        """ĥ_p = Σ_q S[p,q] · H_meta[q] of the rows asked for."""

    def project(self, queries: FloatArray) -> FloatArray:
        """What `scores` wants for each query vector (b × d): computed once, used for every row."""

    def scores(self, projected: FloatArray) -> FloatArray:
        """Dot products of the queries behind `projected` with all rows (b × n)."""


@dataclass(frozen=True, eq=False)
class CodebookTable:
    """Row p is Σ_k weights[p,k] · codebook[columns[p,k]], t terms.

    Weights are kept as they are stored: `values` are the weights, or with `scales` (one per row) bytes in units of
    them.
    """

    columns: NDArray[np.unsignedinteger]
    values: FloatArray | NDArray[np.int8]
    codebook: FloatArray
    scales: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def width(self) -> int:
        return int(self.codebook.shape[1])

    @property
    def packed_bytes(self) -> int:
        c, width = len(self.codebook), self.width
        columns = -(-int(self.columns.size) * bits_for(c) // 8)
        return int(c * (width + 1) + len(self) * (1 + self.columns.shape[1]) + columns)

    @property
    def codes(self) -> "CodebookTable":
        return self

    def vectors(self, which: Positions | slice) -> FloatArray:
        columns, weights = self.columns[which], self.weights_of(which)
        total: FloatArray = weights[:, :1] * self.codebook[columns[:, 0]]
        for k in range(1, columns.shape[1]):
            total += weights[:, k : k + 1] * self.codebook[columns[:, k]]
        return total

    @property
    def weights(self) -> FloatArray:
        return self.weights_of(slice(None))

    def weights_of(self, which: Positions | slice) -> FloatArray:
        weights: FloatArray = self.values[which].astype(np.float32, copy=False)
        return weights if self.scales is None else weights * self.scales[which, None]

    def project(self, queries: FloatArray) -> FloatArray:
        """g = H_meta h_u: after this an item costs t multiply-adds instead of d."""
        projected: FloatArray = queries @ self.codebook.T
        return projected

    def scores(self, projected: FloatArray) -> FloatArray:
        out = np.empty((len(projected), len(self)), dtype=np.float32)
        columns, weights = self._by_term
        term = np.empty(len(self), dtype=np.float32)
        # One term after the other in the order of the codes: the compiled path adds in the same order, so that both
        # give the same float32 numbers to the last bit.
        for row, g in zip(out, projected, strict=True):
            g.take(columns[0], out=row, mode="wrap")  # columns were checked once: of the modes this is the fastest
            row *= weights[0]
            for k in range(1, len(columns)):
                g.take(columns[k], out=term, mode="wrap")
                term *= weights[k]
                row += term
        return out

    @cached_property
    def _by_term(self) -> tuple[NDArray[np.intp], FloatArray]:
        # numpy gathers fastest by its own index type from contiguous arrays
        return np.ascontiguousarray(self.columns.T, dtype=np.intp), np.ascontiguousarray(self.weights.T)


@dataclass(frozen=True, eq=False)
class QuantisedTable:
    """A table in few bits per value: row p is levels[values[p]] · scales[p]."""

    values: NDArray[np.uint8]
    scales: FloatArray
    bits: int

    @classmethod
    def of(cls, table: FloatArray, bits: int) -> "QuantisedTable":
        values, scale, top = quantise_table(rotated(table), bits)
        return cls(values, row_scales(scale, top), bits)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        return int(self.values.shape[1])

    @property
    def packed_bytes(self) -> int:
        return packed_table_bytes(len(self), self.width, self.bits)

    @property
    def codes(self) -> None:
        return None

    def vectors(self, which: Positions | slice) -> FloatArray:
        vectors: FloatArray = table_levels(self.bits)[self.values[which]] * self.scales[which, None]
        return vectors

    def project(self, queries: FloatArray) -> FloatArray:
        return queries

    def scores(self, projected: FloatArray) -> FloatArray:
        """Levels are even steps around zero: values less their middle are multiplied, and steps and scales at the end.

        Looking each value's level up would take most of the time.
        """
        out = np.empty((len(projected), len(self)), dtype=np.float32)
        levels = table_levels(self.bits)
        step, middle = levels[1] - levels[0], np.float32((len(levels) - 1) / 2)
        room = np.empty((_BLOCK, self.width), dtype=np.float32)
        for start in range(0, len(self), _BLOCK):
            block = slice(start, min(start + _BLOCK, len(self)))
            steps = room[: block.stop - start]
            np.subtract(self.values[block], middle, out=steps)
            np.matmul(projected, steps.T, out=out[:, block])
        out *= step * self.scales
        return out


@dataclass(frozen=True, eq=False)
class DenseTable:
    """The table itself, for comparison and for those who have the memory."""

    table: FloatArray

    def __len__(self) -> int:
        return len(self.table)

    @property
    def width(self) -> int:
        return int(self.table.shape[1])

    @property
    def packed_bytes(self) -> int:
        return len(self) * (self.width + 1)

    @property
    def codes(self) -> None:
        return None

    def vectors(self, which: Positions | slice) -> FloatArray:
        return self.table[which]

    def project(self, queries: FloatArray) -> FloatArray:
        return queries

    def scores(self, projected: FloatArray) -> FloatArray:
        scores: FloatArray = projected @ self.table.T
        return scores


def packed_table_bytes(length: int, width: int, bits: int) -> int:
    """Of a `PackedRows` of this size."""
    return -(-length * width * bits // 8) + length


def measure(rows: EmbeddingTable) -> tuple[NDArray[np.float64], FloatArray]:
    """Σ_p ĥ_p ĥ_pᵀ (d × d), and the lengths of all rows (never zero, to divide by), block by block."""
    gram = np.zeros((rows.width, rows.width), dtype=np.float64)
    lengths = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), _BLOCK):
        block = rows.vectors(slice(start, start + _BLOCK))
        gram += block.T @ block
        lengths[start : start + _BLOCK] = np.sqrt(np.einsum("pj,pj->p", block, block))
    return gram, np.maximum(lengths, np.float32(1e-12))
