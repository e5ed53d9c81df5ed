# SPDX-License-Identifier: Apache-2.0
"""Train, shrink and serve graph recommenders whose embeddings fit in a megabyte."""

from typing import TYPE_CHECKING, Any

from legcf.core.threads import wait_without_spinning

wait_without_spinning()

__version__ = "0.1.0"
__all__ = [
    "DataOptions",
    "Dataset",
    "Recommender",
    "Request",
    "Scorer",
    "UserError",
    "__version__",
    "compress",
    "cross_validate",
    "load_data",
]

if TYPE_CHECKING:
    from legcf.core.errors import UserError
    from legcf.data.interactions import Dataset
    from legcf.data.options import DataOptions
    from legcf.data.source import load_data
    from legcf.experiments.cross_validation import cross_validate
    from legcf.export.compress.compress import compress
    from legcf.recommender import Recommender
    from legcf.scoring.scorer import Request, Scorer

_HOMES = {
    "Recommender": "legcf.recommender:Recommender",
    "Scorer": "legcf.scoring.scorer:Scorer",
    "Request": "legcf.scoring.scorer:Request",
    "Dataset": "legcf.data.interactions:Dataset",
    "DataOptions": "legcf.data.options:DataOptions",
    "load_data": "legcf.data.source:load_data",
    "compress": "legcf.export.compress.compress:compress",
    "cross_validate": "legcf.experiments.cross_validation:cross_validate",
    "UserError": "legcf.core.errors:UserError",
}


def __dir__() -> list[str]:
    """List the public names, which are imported on first use."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Import on first use: serving must not pay for torch, nor a script for what it does not touch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'legcf' has no attribute {name!r}")
    import importlib

    from legcf.core.errors import training_packages_for

    module, attribute = _HOMES[name].split(":")
    with training_packages_for(f"`legcf.{name}`"):
        return getattr(importlib.import_module(module), attribute)
