"""How numbers are made small: packed bits, quantised rows, sorted pairs in the Elias-Fano form. Numpy only.

Every decoder is told how many values to expect and refuses bytes that do not hold exactly as many, so that a damaged
or hostile file can neither read outside its arrays nor grow in memory.
"""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
Bytes = NDArray[np.uint8]
_CHUNK = 1 << 16  # a multiple of eight: every chunk of values starts on a whole byte
_SCALE_STEP = 1.03  # row scales are powers of this: one byte spans 0.97 … 1/1800 of the largest row


def bits_for(count: int) -> int:
    """Bits that tell `count` values apart."""
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


def unpack_bits(packed: Bytes, bits: int, count: int) -> NDArray[np.int64]:
    """The `count` values that `pack_bits` wrote. Each value is cut out of the eight bytes that it begins in."""
    if not 1 <= bits <= 56 or packed.ndim != 1 or len(packed) != (count * bits + 7) // 8:
        raise ValueError("packed values do not have the expected length")
    out = np.empty(count, dtype=np.int64)
    padded = np.concatenate([packed, np.zeros(8, dtype=np.uint8)])
    words = np.lib.stride_tricks.sliding_window_view(padded, 8)
    mask = np.uint64((1 << bits) - 1)
    for start in range(0, count, _CHUNK):
        position = np.arange(start, min(start + _CHUNK, count), dtype=np.int64) * bits
        word = np.ascontiguousarray(words[position >> 3]).view("<u8")[:, 0]
        out[start : start + _CHUNK] = ((word >> (position & 7).astype(np.uint64)) & mask).astype(np.int64)
    return out


def quantise_rows(rows: FloatArray) -> tuple[NDArray[np.int8], Bytes, float]:
    """8-bit rows, a one-byte scale a row and the largest scale: row p ≈ values[p] · top · 1.03^−scale[p].

    Rows differ in size by orders of magnitude (a user with a thousand items, one with ten), so each has its own scale;
    logarithmic steps make one byte enough, at a cost of at most 3 % of the resolution.
    """
    largest = np.abs(rows).max(axis=1, initial=0.0) / 127.0
    top = float(largest.max(initial=0.0)) or 1.0
    steps = np.floor(np.log(top / np.maximum(largest, top * 1e-30)) / np.log(_SCALE_STEP) + 1e-6)
    scale = np.clip(steps, 0, 255).astype(np.uint8)
    values = np.rint(rows / row_scales(scale, top)[:, None])
    return np.clip(values, -127, 127).astype(np.int8), scale, top


def row_scales(scale: Bytes, top: float) -> FloatArray:
    factors: FloatArray = (top * _SCALE_STEP ** -np.arange(256, dtype=np.float64)).astype(np.float32)
    return factors[scale]


def dequantise_rows(values: NDArray[np.int8], scale: Bytes, top: float) -> FloatArray:
    rows: FloatArray = values.astype(np.float32) * row_scales(scale, top)[:, None]
    return rows


def encode_sorted(keys: NDArray[np.int64], universe: int) -> tuple[Bytes, Bytes]:
    """Elias-Fano: sorted keys below `universe` as packed low bits and a unary bit vector of the high parts.

    About 2 + log2(universe / n) bits a key, within half a bit of the least possible for a random set.
    """
    low_bits = _low_bits(len(keys), universe)
    high = (keys >> low_bits) + np.arange(len(keys))
    flags = np.zeros(len(keys) + (universe >> low_bits) + 1, dtype=np.uint8)
    flags[high] = 1
    low = pack_bits(keys & ((1 << low_bits) - 1), low_bits) if low_bits else np.empty(0, dtype=np.uint8)
    return low, np.packbits(flags, bitorder="little")


def decode_sorted(low: Bytes, high: Bytes, count: int, universe: int) -> NDArray[np.int64]:
    low_bits = _low_bits(count, universe)
    if len(high) != (count + (universe >> low_bits) + 1 + 7) // 8:
        raise ValueError("sorted keys do not have the expected length")
    positions = np.flatnonzero(np.unpackbits(high, bitorder="little"))
    if len(positions) != count:
        raise ValueError("sorted keys do not have the expected number")
    keys = (positions - np.arange(count)) << low_bits
    if low_bits:
        keys |= unpack_bits(low, low_bits, count)
    if count and (keys[-1] >= universe or bool(np.any(np.diff(keys) <= 0))):
        raise ValueError("sorted keys are out of order")
    return keys


def _low_bits(count: int, universe: int) -> int:
    return max(0, (universe // max(count, 1)).bit_length() - 1)


def smallest_integers(values: NDArray[np.integer]) -> NDArray[np.integer]:
    """The same integers in the narrowest type that holds them."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    kinds = (np.uint8, np.uint16, np.uint32, np.uint64) if low >= 0 else (np.int8, np.int16, np.int32, np.int64)
    for kind in kinds:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    raise OverflowError("integers beyond 64 bits")
