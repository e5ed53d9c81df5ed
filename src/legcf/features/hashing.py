# SPDX-License-Identifier: Apache-2.0
"""Hash tokens into columns without a vocabulary: MurmurHash3, with the columns and signs of scikit-learn's
`FeatureHasher`, and texts cut into words as its `HashingVectorizer` cuts them. Plain Python: a server encodes items as
training did.
"""

import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"\b\w\w+\b")
_MASK = 0xFFFFFFFF
_FIRST, _SECOND = 0xCC9E2D51, 0x1B873593
_CACHED = 2**17  # tokens whose columns are remembered


@lru_cache(maxsize=_CACHED)
def hashed_column(token: str, width: int) -> tuple[int, float]:
    """Return the column of a token among `width`, and its sign: tokens that meet cancel as often as they add up."""
    code = murmur3(token.encode("utf-8", "surrogatepass"))
    return abs(code) % width, 1.0 if code >= 0 else -1.0


def murmur3(data: bytes) -> int:
    """Return MurmurHash3 (x86, 32 bits, seed 0) as a signed number."""
    code, whole = 0, len(data) & ~3
    for start in range(0, whole, 4):
        code ^= _mixed(int.from_bytes(data[start : start + 4], "little"))
        code = (_turned(code, 13) * 5 + 0xE6546B64) & _MASK
    code ^= _mixed(int.from_bytes(data[whole:], "little")) ^ len(data)
    code = ((code ^ code >> 16) * 0x85EBCA6B) & _MASK
    code = ((code ^ code >> 13) * 0xC2B2AE35) & _MASK
    code ^= code >> 16
    return code - 2**32 if code >= 2**31 else code


def words(text: str) -> list[str]:
    """Return the words of two letters or more, in lower case and without accents."""
    apart = unicodedata.normalize("NFKD", text.lower())
    return _WORD.findall("".join(letter for letter in apart if not unicodedata.combining(letter)))


def _mixed(block: int) -> int:
    return (_turned(block * _FIRST & _MASK, 15) * _SECOND) & _MASK


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK
