# SPDX-License-Identifier: Apache-2.0
"""Make numbers small: packed bits, quantised rows, sorted pairs in the Elias-Fano form. Numpy only.

Every decoder takes the number of values to expect and refuses bytes that do not hold exactly as many, so that a damaged
or hostile file can neither read outside its arrays nor grow in memory.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from legcf.core.arrays import FloatArray
from legcf.core.random_streams import fixed_generator

Bytes = NDArray[np.uint8]
_ROTATED = 4096  # rows at a time
_CHUNK = 1 << 12  # values at a time, so that temporaries stay small; of eight, so that each chunk starts a byte
_LLOYD_ROUNDS, _LLOYD_SAMPLE = 15, 200_000  # rounds, and values that are looked at; no measurement recorded
_SPAN = {1: 1.6, 2: 2.0, 3: 2.5, 4: 2.6, 5: 3.1, 6: 3.6, 8: 4.5}
"""By bits, how many root mean squares the steps of a table reach: beyond it values are cut.

Near those of least squared error for a normal distribution (Max 1960: 1.6, 2.0, 2.3, 2.7, 3.0, 3.3 and 3.9).
"""
TABLE_BITS = tuple(_SPAN)
_SLACK = 0.1  # of a step, by which a row may exceed its scale: what was rounded once is then rounded to itself
_SCALE_STEP = 1.03  # row scales are powers of this: one byte spans 0.97 … 1/1800 of the largest row


def bits_for(count: int) -> int:
    """Return how many bits distinguish `count` values."""
    return max(1, (count - 1).bit_length())


def pack_bits(values: NDArray[np.integer], bits: int) -> Bytes:
    """Write each value with `bits` bits, back to back, lowest bit first."""
    flat = values.ravel()
    shifts = np.arange(bits, dtype=np.uint64)
    parts = [
        np.packbits(((chunk.astype(np.uint64)[:, None] >> shifts) & np.uint64(1)).astype(np.uint8), bitorder="little")
        for chunk in (flat[start : start + _CHUNK] for start in range(0, len(flat), _CHUNK))
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint8)


def unpack_bits(packed: Bytes, bits: int, count: int, dtype: type[np.integer] = np.int64) -> NDArray[np.integer]:
    """Read the `count` values that `pack_bits` wrote, as a type that is wide enough for them."""
    reader = BitReader(packed, bits, count)
    out = np.empty(count, dtype=dtype)
    for start in range(0, count, _CHUNK):
        out[start : start + _CHUNK] = reader.read(start, min(start + _CHUNK, count))
    return out


class BitReader:
    """Read packed values a range at a time: each is cut out of the eight bytes that it begins in."""

    def __init__(self, packed: Bytes, bits: int, count: int) -> None:
        if not 1 <= bits <= 56 or packed.ndim != 1 or len(packed) != (count * bits + 7) // 8:
            raise ValueError("packed values do not have the expected length")
        self._bits, self._mask = bits, np.uint64((1 << bits) - 1)
        self._bytes = np.append(packed, np.zeros(8, dtype=np.uint8))
        # a word begins at every byte
        self._words = np.ndarray((len(self._bytes) - 7,), dtype="<u8", buffer=self._bytes.data, strides=(1,))

    @property
    def packed(self) -> Bytes:
        return self._bytes[:-8]

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        position = np.arange(start * self._bits, stop * self._bits, self._bits, dtype=np.int64)
        words = self._words[position >> 3] >> (position & 7).view(np.uint64)
        values: NDArray[np.int64] = (words & self._mask).view(np.int64)
        return values


def quantise_rows(rows: FloatArray) -> tuple[NDArray[np.int8], Bytes, float]:
    """Return 8-bit rows, a one-byte scale a row and the largest scale: row p ≈ values[p] · top · 1.03^−scale[p].

    Rows differ in size by orders of magnitude (a user with a thousand items, one with ten), so each has its own scale;
    logarithmic steps make one byte enough, at a cost of at most 3 % of the resolution.
    """
    largest = np.abs(rows).max(axis=1, initial=0.0) / 127.0
    top = float(largest.max(initial=0.0)) or 1.0
    steps = np.floor(np.log(top / np.maximum(largest, top * 1e-30)) / np.log(_SCALE_STEP) + _SLACK)
    scale = np.clip(steps, 0, 255).astype(np.uint8)
    values = np.rint(rows / row_scales(scale, top)[:, None])
    return np.clip(values, -127, 127).astype(np.int8), scale, top


def row_scales(scale: Bytes, top: float) -> FloatArray:
    factors: FloatArray = (top * _SCALE_STEP ** -np.arange(256, dtype=np.float64)).astype(np.float32)
    return factors[scale]


def dequantise_rows(values: NDArray[np.int8], scale: Bytes, top: float) -> FloatArray:
    rows: FloatArray = values.astype(np.float32)
    rows *= row_scales(scale, top)[:, None]
    return rows


def quantise_levels(values: FloatArray, bits: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Return each value as one of 2^bits levels, and the levels: the values themselves where they are as few."""
    levels: NDArray[np.floating] = np.unique(values)
    if len(levels) > 1 << bits:
        levels = _lloyd_levels(values, 1 << bits)
    return np.searchsorted((levels[1:] + levels[:-1]) / 2, values), levels.astype(np.float32)


def _lloyd_levels(values: FloatArray, count: int) -> NDArray[np.float64]:
    """Find levels of least squared error (Lloyd 1982), starting at quantiles drawn halfway to even steps."""
    ordered = np.sort(values[:: max(1, len(values) // _LLOYD_SAMPLE)]).astype(np.float64)
    quantiles = np.quantile(ordered, (np.arange(count) + 0.5) / count)
    levels = (quantiles + np.linspace(ordered[0], ordered[-1], count)) / 2
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    for _ in range(_LLOYD_ROUNDS):
        borders = np.searchsorted(ordered, (levels[1:] + levels[:-1]) / 2)
        bounds = np.concatenate([[0], borders, [len(ordered)]])
        members = np.diff(bounds)
        means = np.diff(sums[bounds]) / np.maximum(members, 1)
        levels = np.sort(np.where(members > 0, means, levels))
    return levels


def quantise_table(table: FloatArray, bits: int) -> tuple[Bytes, Bytes, float]:
    """Return rows in 2^bits even steps around zero, a one-byte scale per row and the largest.

    A quarter of a byte per value is enough where values are spread like a normal distribution (`rotated` sees to it).

    Row p ≈ (values[p] + ½ − 2^(bits−1)) · step · top · 1.03^−scale[p], its steps ± `_SPAN` root mean squares wide.
    """
    sizes = np.sqrt(np.square(table, dtype=np.float64).mean(axis=1))
    top = float(sizes.max(initial=0.0)) or 1.0
    scale = scale_steps(sizes, top)
    half, width = 1 << (bits - 1), 2 * _SPAN[bits] / (1 << bits)
    values = np.floor(table / (row_scales(scale, top)[:, None] * np.float32(width)))
    return (np.clip(values, -half, half - 1) + half).astype(np.uint8), scale, top


def scale_steps(sizes: NDArray[np.floating], top: float) -> Bytes:
    """Return the nearest steps below the largest size: what `row_scales` turns back."""
    steps = np.rint(np.log(top / np.maximum(sizes, top * 1e-30)) / np.log(_SCALE_STEP))
    coded: Bytes = np.clip(steps, 0, 255).astype(np.uint8)
    return coded


def table_levels(bits: int) -> FloatArray:
    """Return what the values of `quantise_table` stand for, in units of their row's scale."""
    count = 1 << bits
    return ((np.arange(count) + 0.5 - count / 2) * (2 * _SPAN[bits] / count)).astype(np.float32)


def rotated(table: FloatArray) -> FloatArray:
    """Turn a table into another basis, always the same, in which no column stands out; inner products stay."""
    draws = fixed_generator().standard_normal((table.shape[1], table.shape[1]))
    basis, turned = np.linalg.qr(draws)[0], np.empty(table.shape, dtype=np.float32)
    for start in range(0, len(table), _ROTATED):  # a copy of them all in float64 would be the largest array of a run
        turned[start : start + _ROTATED] = table[start : start + _ROTATED] @ basis
    return turned


def encode_sorted(keys: NDArray[np.int64], universe: int) -> tuple[Bytes, Bytes]:
    """Encode sorted keys below `universe` by Elias-Fano: packed low bits and a unary bit vector of the high parts.

    About 2 + log2(universe / n) bits a key, within half a bit of the least possible for a random set.
    """
    low_bits = _low_bits(len(keys), universe)
    high = (keys >> low_bits) + np.arange(len(keys))
    flags = np.zeros(len(keys) + (universe >> low_bits) + 1, dtype=np.uint8)
    flags[high] = 1
    low = pack_bits(keys & ((1 << low_bits) - 1), low_bits) if low_bits else np.empty(0, dtype=np.uint8)
    return low, np.packbits(flags, bitorder="little")


class SortedKeys:
    """Keep keys in the form of `encode_sorted` and decode a part at a time.

    Eight bytes a key would be the most memory that serving ever takes.
    """

    def __init__(self, low: Bytes, high: Bytes, count: int, universe: int) -> None:
        self._low_bits, self._count, self._universe = _low_bits(count, universe), count, universe
        if len(high) != (count + (universe >> self._low_bits) + 1 + 7) // 8:
            raise ValueError("sorted keys do not have the expected length")
        self._lower = BitReader(low, self._low_bits, count) if self._low_bits else None
        self._high = high.copy()  # a view would keep the whole file in memory

    @property
    def packed(self) -> tuple[Bytes, Bytes]:
        """Return the low and the high part as `encode_sorted` made them."""
        return np.zeros(0, dtype=np.uint8) if self._lower is None else self._lower.packed, self._high

    def chunks(self) -> Iterator[NDArray[np.int64]]:
        """Yield all keys in order, checked: those of a damaged file may be too many, too large or unsorted."""
        done, last = 0, -1
        for start in range(0, len(self._high), _CHUNK // 8):
            bits_set = _ones(self._high, start, start + _CHUNK // 8)
            end = done + len(bits_set)
            if end > self._count:
                break
            keys = self._keys(bits_set, done)
            if len(keys):
                if keys[0] <= last or keys[-1] >= self._universe or bool(np.any(np.diff(keys) <= 0)):
                    raise ValueError("sorted keys are out of order")
                last = int(keys[-1])
                yield keys
            done = end
        if done != self._count:
            raise ValueError("sorted keys do not have the expected number")

    def between(self, first: int, last: int, lowest: int, beyond: int) -> NDArray[np.int64]:
        """Return keys number `first` to `last` − 1, which are known to be all those from `lowest` on, below `beyond`.

        Key number n has its bit at index (key >> low_bits) + n, so both ends are known without a search.
        """
        start, end = (lowest >> self._low_bits) + first, (beyond >> self._low_bits) + last + 1
        bits_set = _ones(self._high, start >> 3, (end + 7) >> 3)
        before = int(np.searchsorted(bits_set, start))
        return self._keys(bits_set[before : before + last - first], first)

    def _keys(self, bits_set: NDArray[np.int64], first: int) -> NDArray[np.int64]:
        """Return the keys whose bits are set at these indices, the first of them being key number `first`."""
        end = first + len(bits_set)
        keys: NDArray[np.int64] = (bits_set - np.arange(first, end)) << self._low_bits
        if self._lower is not None:
            keys |= self._lower.read(first, end)
        return keys


def _ones(packed: Bytes, start: int, stop: int) -> NDArray[np.int64]:
    """Return the indices of the bits that are set in the bytes from `start` on, before `stop`."""
    return np.flatnonzero(np.unpackbits(packed[start:stop], bitorder="little")) + 8 * start


def _low_bits(count: int, universe: int) -> int:
    return max(0, (universe // max(count, 1)).bit_length() - 1)


def smallest_integers(values: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the same integers in the narrowest type that holds them."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    kinds = (np.uint8, np.uint16, np.uint32, np.uint64) if low >= 0 else (np.int8, np.int16, np.int32, np.int64)
    for kind in kinds:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    raise OverflowError("integers beyond 64 bits")
