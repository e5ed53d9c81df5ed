"""legcf: graph recommenders whose embeddings fit in a megabyte."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["DataOptions", "Dataset", "Recommender", "UserError", "__version__", "compress", "load"]

if TYPE_CHECKING:
    from legcf.compression.compress import compress
    from legcf.data.interactions import Dataset
    from legcf.data.source import DataOptions, load
    from legcf.errors import UserError
    from legcf.recommender import Recommender

_HOMES = {
    "Recommender": "legcf.recommender",
    "Dataset": "legcf.data.interactions",
    "DataOptions": "legcf.data.source",
    "load": "legcf.data.source",
    "compress": "legcf.compression.compress",
    "UserError": "legcf.errors",
}


def __getattr__(name: str) -> Any:
    """Import on first use: serving must not pay for torch, nor a script for what it does not touch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'legcf' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
