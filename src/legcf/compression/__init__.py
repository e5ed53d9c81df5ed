"""Any embedding table made small: readers, the coding itself, and the choice of sizes."""

from legcf.compression.compress import Compressed, compress

__all__ = ["Compressed", "compress"]
