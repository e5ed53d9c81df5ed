# SPDX-License-Identifier: Apache-2.0
"""The paper's printed numbers, transcribed from its tables into published.json."""

import functools
import json
from importlib import resources
from typing import Any

PUBLISHED_METRICS = ("ndcg@10", "recall@10", "ndcg@20", "recall@20")
"""In the order of Table 2."""


@functools.cache
def _content() -> dict[str, Any]:
    text = resources.files("legcf.experiments").joinpath("published.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def source() -> str:
    return str(_content()["source"])


def place(study: str) -> str | None:
    """Where in the paper the study's numbers are printed."""
    found = _content()["tables"].get(study)
    return None if found is None else str(found)


def said(name: str) -> str | None:
    """What the text says where only a plot is printed."""
    found = _content()["said"].get(name)
    return None if found is None else str(found)


def datasets() -> list[str]:
    return list(_content()["datasets"])


def is_known(dataset: str, num_users: int, num_items: int) -> bool:
    """Whether the paper has numbers for this data; the name alone would also fit another set of pairs."""
    entry = _content()["datasets"].get(dataset)
    return entry is not None and (entry["users"], entry["items"]) == (num_users, num_items)


def numbers(dataset: str, study: str, row: str) -> dict[str, float]:
    """Metrics of a row (and "params" in Table 2); empty where the paper prints none."""
    return dict(_content()["datasets"].get(dataset, {}).get(study, {}).get(row, {}))
