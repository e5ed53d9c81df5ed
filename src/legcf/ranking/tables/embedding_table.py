# SPDX-License-Identifier: Apache-2.0
"""Keep the vectors of one side, users or items: coded over a shared codebook, in few bits, or as the full table.

A new kind of table is a class here that has what `EmbeddingTable` asks for, and its form in a file
(`legcf.modelfile.codecs`). Numpy only.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray, Positions
from legcf.ranking.tables.packing import bits_for, quantise_table, rotated, row_scales, table_levels

_YARDSTICK_WIDTH = 128  # values a vector
_EXACT = 2.0**24  # times the largest value: float64 numbers there are 2^−29 of it apart, and 2^15 steps sum up exactly
_BLOCK = 1024  # rows worked on at once: they stay in the cache, and no N × d table ever stands in memory


class EmbeddingTable(Protocol):
    """Say what scoring needs of a side."""

    kind: ClassVar[str]
    """What a file calls it."""

    def __len__(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def packed_bytes(self) -> int:
        """Return the bytes that a file needs for them, a shared codebook included."""

    @property
    def facts(self) -> dict[str, int]:
        """Return the sizes that people are shown beside the width."""
        return {}

    @property
    def codes(self) -> "CodebookTable | None":
        """Return the table itself where its rows are codes over a codebook; None for any other kind."""
        return None

    def vectors(self, which: Positions | slice) -> FloatArray:
        """Return ĥ_p = Σ_q S[p,q] · H_meta[q] of the rows asked for."""

    def project(self, queries: FloatArray) -> FloatArray:
        """Return what `scores` takes for each query vector (b × d): computed once, used for every row."""
        return queries

    def scores(self, projected: FloatArray) -> FloatArray:
        """Return dot products of the queries behind `projected` with all rows (b × n)."""

    @property
    def reach(self) -> FloatArray:
        """Return the most that the terms of a row's product with a query of length 1 can be, all of one sign."""

    def products(self, queries: FloatArray, which: Positions) -> FloatArray:
        """Return the product of each query with one row: in every reader and on every machine the same float32."""

    def appended(self, vectors: FloatArray) -> "EmbeddingTable":
        """Return the table with these vectors at the end, stored as the others are."""


@dataclass(frozen=True, eq=False)
class CodebookTable(EmbeddingTable):
    """Keep row p as Σ_k weights[p,k] · codebook[columns[p,k]], t terms.

    Weights are kept as they are stored: `values` are the weights, or with `scales` (one per row) bytes in units of
    them.
    """

    kind: ClassVar[str] = "coded"
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
    def facts(self) -> dict[str, int]:
        return {"c": len(self.codebook), "t": self.columns.shape[1]}

    @property
    def codes(self) -> "CodebookTable":
        return self

    def vectors(self, which: Positions | slice) -> FloatArray:
        columns, weights = self.columns[which], self.weights_of(which)
        total = np.empty((len(columns), self.width), dtype=np.float32)
        for start in range(0, len(columns), _BLOCK):
            block = slice(start, start + _BLOCK)
            np.multiply(weights[block, :1], self.codebook[columns[block, 0]], out=total[block])
            for k in range(1, columns.shape[1]):
                total[block] += weights[block, k : k + 1] * self.codebook[columns[block, k]]
        return total

    @property
    def weights(self) -> FloatArray:
        return self.weights_of(slice(None))

    def weights_of(self, which: Positions | slice) -> FloatArray:
        weights: FloatArray = self.values[which].astype(np.float32, copy=False)
        return weights if self.scales is None else weights * self.scales[which, None]

    def project(self, queries: FloatArray) -> FloatArray:
        """Return g = H_meta h_u: after this an item costs t multiply-adds instead of d."""
        return queries @ self.codebook.T

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
    def reach(self) -> FloatArray:
        columns, weights = self._by_term
        lengths, total = np.linalg.norm(self.codebook, axis=1), np.zeros(len(self), dtype=np.float32)
        for k in range(len(columns)):
            total += np.abs(weights[k]) * lengths[columns[k]]
        return total

    def products(self, queries: FloatArray, which: Positions) -> FloatArray:
        columns, weights = self.columns[which], self.weights_of(which)
        total = weights[:, 0] * ordered_products(queries, self.codebook[columns[:, 0]])
        for k in range(1, columns.shape[1]):
            total += weights[:, k] * ordered_products(queries, self.codebook[columns[:, k]])
        return total

    def appended(self, vectors: FloatArray) -> "CodebookTable":
        coded = [code_vector(vector, self.codebook, self.columns.shape[1]) for vector in vectors]
        columns = np.array([columns for columns, _ in coded], dtype=self.columns.dtype)
        weights = np.array([weights for _, weights in coded], dtype=np.float32)
        both = np.concatenate([self.columns, columns]), np.concatenate([self.weights, weights])
        return CodebookTable(*both, self.codebook)

    @cached_property
    def _by_term(self) -> tuple[NDArray[np.intp], FloatArray]:
        # numpy gathers fastest by its own index type from contiguous arrays
        return np.ascontiguousarray(self.columns.T, dtype=np.intp), np.ascontiguousarray(self.weights.T)


@dataclass(frozen=True, eq=False)
class QuantisedTable(EmbeddingTable):
    """Keep a table in few bits per value: row p is levels[values[p]] · scales[p]."""

    kind: ClassVar[str] = "packed"
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
    def facts(self) -> dict[str, int]:
        return {"bits": self.bits}

    def vectors(self, which: Positions | slice) -> FloatArray:
        vectors: FloatArray = table_levels(self.bits)[self.values[which]]
        vectors *= self.scales[which, None]
        return vectors

    def scores(self, projected: FloatArray) -> FloatArray:
        """Multiply values less their middle, since levels are even steps around zero, and steps and scales at the end.

        Looking each value's level up would take most of the time.
        """
        out = np.empty((len(projected), len(self)), dtype=np.float32)
        levels = table_levels(self.bits)
        step, middle = levels[1] - levels[0], np.float32((len(levels) - 1) / 2)
        buffer = np.empty((_BLOCK, self.width), dtype=np.float32)
        for start in range(0, len(self), _BLOCK):
            block = slice(start, min(start + _BLOCK, len(self)))
            steps = buffer[: block.stop - start]
            np.subtract(self.values[block], middle, out=steps)
            np.matmul(projected, steps.T, out=out[:, block])
        out *= step * self.scales
        return out

    @cached_property
    def reach(self) -> FloatArray:
        longest: FloatArray = self.scales * (table_levels(self.bits).max() * np.float32(np.sqrt(self.width)))
        return longest

    def products(self, queries: FloatArray, which: Positions) -> FloatArray:
        """Round queries to few enough bits for every sum of their steps to be exact, in whatever order it is made."""
        levels = table_levels(self.bits)
        step, middle = levels[1] - levels[0], (len(levels) - 1) / 2
        grid = _EXACT * np.abs(queries).max(axis=1, keepdims=True).astype(np.float64)
        sums = np.einsum("px,px->p", queries + grid - grid, self.values[which] - middle)
        products: FloatArray = sums.astype(np.float32) * (step * self.scales[which])
        return products

    def appended(self, vectors: FloatArray) -> "QuantisedTable":
        values, scale, top = quantise_table(vectors, self.bits)
        scales = np.concatenate([self.scales, row_scales(scale, top)])
        return QuantisedTable(np.concatenate([self.values, values]), scales, self.bits)


@dataclass(frozen=True, eq=False)
class DenseTable(EmbeddingTable):
    """Keep the table itself, for comparison and for those who have the memory."""

    kind: ClassVar[str] = "full"
    table: FloatArray

    def __len__(self) -> int:
        return len(self.table)

    @property
    def width(self) -> int:
        return int(self.table.shape[1])

    @property
    def packed_bytes(self) -> int:
        return len(self) * (self.width + 1)

    def vectors(self, which: Positions | slice) -> FloatArray:
        return self.table[which]

    def scores(self, projected: FloatArray) -> FloatArray:
        return projected @ self.table.T

    @cached_property
    def reach(self) -> FloatArray:
        lengths: FloatArray = np.sqrt(np.einsum("pj,pj->p", self.table, self.table))
        return lengths

    def products(self, queries: FloatArray, which: Positions) -> FloatArray:
        return ordered_products(queries, self.table[which])

    def appended(self, vectors: FloatArray) -> "DenseTable":
        return DenseTable(np.concatenate([self.table, vectors]))


def ordered_products(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return inner products of rows in the one order of all readers: four sums in float64, every fourth term in each.

    Terms are exact in float64, so that it does not matter whether a machine rounds them before it adds.
    """
    terms = one.astype(np.float64) * other
    whole = terms.shape[1] // 4 * 4
    sums = np.zeros((len(terms), 4))
    if whole:  # a running sum is made term after term; `sum` is free to pair them
        sums = np.cumsum(terms[:, :whole].reshape(len(terms), -1, 4), axis=1)[:, -1]
    for x in range(whole, terms.shape[1]):
        sums[:, 0] += terms[:, x]
    return ((sums[:, 0] + sums[:, 1]) + (sums[:, 2] + sums[:, 3])).astype(np.float32)


def full_table_bytes(entities: int) -> int:
    """Return the bytes that all models are compared with: a vector of 128 float32 for each user and item.

    It is the width of the papers' full tables, and the same for every method, however wide its own vectors are.
    """
    return entities * _YARDSTICK_WIDTH * 4


def packed_table_bytes(length: int, width: int, bits: int) -> int:
    """Return the bytes of a `QuantisedTable` of this size."""
    return -(-length * width * bits // 8) + length


def measure(rows: EmbeddingTable) -> tuple[NDArray[np.float64], FloatArray]:
    """Return Σ_p ĥ_p ĥ_pᵀ (d × d), and the lengths of all rows (never zero, to divide by), block by block."""
    gram = np.zeros((rows.width, rows.width), dtype=np.float64)
    lengths = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), _BLOCK):
        block = rows.vectors(slice(start, start + _BLOCK))
        gram += block.T @ block
        lengths[start : start + _BLOCK] = np.sqrt(np.einsum("pj,pj->p", block, block))
    return gram, np.maximum(lengths, np.float32(1e-12))


def code_vector(vector: FloatArray, codebook: FloatArray, t: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Code a vector by orthogonal matching pursuit: t columns and weights with Σ weights · codebook[columns] ≈ vector.

    The plain form of `assignment.matching_pursuit`, which swaps columns as well and needs numba.
    """
    book = codebook.astype(np.float64)
    lengths = np.linalg.norm(book, axis=1)
    usable = lengths > 0
    residual = vector.astype(np.float64)
    columns: list[int] = []
    weights: NDArray[np.float64] = np.zeros(0)
    for _ in range(min(t, int(usable.sum()))):
        gain = np.where(usable, np.abs(book @ residual) / np.maximum(lengths, 1e-30), -1.0)
        gain[columns] = -1.0
        columns.append(int(gain.argmax()))
        weights = np.asarray(np.linalg.lstsq(book[columns].T, vector.astype(np.float64), rcond=None)[0], np.float64)
        residual = vector - weights @ book[columns]
    order = np.argsort(-np.abs(weights), kind="stable")
    padded, values = np.zeros(t, dtype=np.int64), np.zeros(t, dtype=np.float32)
    padded[: len(order)], values[: len(order)] = np.array(columns, dtype=np.int64)[order], weights[order]
    return padded, values
