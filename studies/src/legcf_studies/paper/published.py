# SPDX-License-Identifier: Apache-2.0
"""Read the paper's printed numbers, transcribed from its tables into published.json."""

from pathlib import Path
from typing import Any

from legcf.core.files import read_json

PUBLISHED_METRICS = ("ndcg@10", "recall@10", "ndcg@20", "recall@20")
"""In the order of Table 2."""
_PUBLISHED: dict[str, Any] = read_json(Path(__file__).with_name("published.json"))


def source() -> str:
    return str(_PUBLISHED["source"])


def said(name: str) -> str | None:
    """Return what the text says where only a plot is printed."""
    sentence: str | None = _PUBLISHED["said"].get(name)
    return sentence


def datasets() -> list[str]:
    return list(_PUBLISHED["datasets"])


def is_known(dataset: str, num_users: int, num_items: int) -> bool:
    """Return whether the paper has numbers for this data; the name alone would also fit another set of pairs."""
    entry = _PUBLISHED["datasets"].get(dataset)
    return entry is not None and (entry["users"], entry["items"]) == (num_users, num_items)


def numbers(dataset: str, study: str, row: str) -> dict[str, float]:
    """Return the metrics of a row (and "params" in Table 2); empty where the paper prints none."""
    return dict(_PUBLISHED["datasets"].get(dataset, {}).get(study, {}).get(row, {}))
