# SPDX-License-Identifier: Apache-2.0
"""Read the paper's printed numbers, transcribed from its tables into published.json."""

import functools
import json
from importlib import resources
from typing import Any

PUBLISHED_METRICS = ("ndcg@10", "recall@10", "ndcg@20", "recall@20")
"""In the order of Table 2."""


@functools.cache
def _published_numbers() -> dict[str, Any]:
    """Read published.json, once in a process."""
    text = resources.files("legcf.experiments").joinpath("published.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def source() -> str:
    return str(_published_numbers()["source"])


def table_in_paper(study: str) -> str | None:
    """Return where in the paper the study's numbers are printed."""
    table = _published_numbers()["tables"].get(study)
    return None if table is None else str(table)


def said(name: str) -> str | None:
    """Return what the text says where only a plot is printed."""
    sentence = _published_numbers()["said"].get(name)
    return None if sentence is None else str(sentence)


def datasets() -> list[str]:
    return list(_published_numbers()["datasets"])


def is_known(dataset: str, num_users: int, num_items: int) -> bool:
    """Return whether the paper has numbers for this data; the name alone would also fit another set of pairs."""
    entry = _published_numbers()["datasets"].get(dataset)
    return entry is not None and (entry["users"], entry["items"]) == (num_users, num_items)


def numbers(dataset: str, study: str, row: str) -> dict[str, float]:
    """Return the metrics of a row (and "params" in Table 2); empty where the paper prints none."""
    return dict(_published_numbers()["datasets"].get(dataset, {}).get(study, {}).get(row, {}))
