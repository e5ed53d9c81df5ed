# SPDX-License-Identifier: Apache-2.0
"""Describe cells: a cell is one setting of an experiment, under a name. With a seed it becomes a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from legcf.core.config import SECTIONS, RunConfig
from legcf.core.errors import UserError
from legcf.core.files import digest
from legcf.training.registry import BACKBONES, METHODS, config_from_json, resolve

WIDTH = 128
_BUCKETS = 500
_ENTITIES_A_BUCKET = 4  # below 2,000 entities a codebook of 500 would hardly be shared
_NO_DECISIONS = {"threads", "memory_cap_mb", "checkpoint_seconds"}
_DEEPER = ("yelp2020", "amazon-book")  # where the paper uses four layers instead of three


@dataclass(frozen=True)
class StudyContext:
    """Hold what a study is declared for: the data's name and size, the effort, and how long a run may take."""

    dataset: str
    num_users: int
    num_items: int
    effort: str = "quick"
    minutes: float | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    num_pairs: int | None = None
    """Training pairs; quick runs take smaller batches where there are few."""

    @property
    def num_entities(self) -> int:
        return self.num_users + self.num_items

    @property
    def buckets(self) -> int:
        """Return c of the paper's setting, less on very small data."""
        return max(2, min(_BUCKETS, self.num_entities // _ENTITIES_A_BUCKET))

    @property
    def budget(self) -> int | str:
        """Return the stored values of LEGCF's setting, c·d + t·N: what methods of variable size must keep to."""
        return "legcf" if self.buckets == _BUCKETS else self.buckets * WIDTH + 2 * self.num_entities

    @property
    def width_within_budget(self) -> int:
        """Return the width of the full table whose size is nearest to the budget."""
        return max(1, round((self.buckets * WIDTH + 2 * self.num_entities) / self.num_entities))

    @property
    def layers(self) -> int:
        return 4 if self.dataset in _DEEPER else 3


@dataclass(frozen=True)
class Cell:
    """Hold one setting of an experiment. `presets` are tried in turn, since a method need not have all of them."""

    name: str
    label: str
    method: str
    presets: tuple[str, ...]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    backbone: str | None = None
    group: str = ""
    """Rows of a table that belong together."""
    keep_state: bool = False
    """Keep codebook and assignment, which the case studies look at."""
    reference: bool = False
    """Not a rival for the best in bold: it is not compressed, or not the paper's."""

    def unavailable(self) -> str | None:
        """Return why it cannot run here at all, if so."""
        if self.method not in METHODS:
            return f"method {self.method} is not available"
        if self.backbone is not None and self.backbone not in BACKBONES:
            return f"backbone {self.backbone} is not available"
        if not any(preset in METHODS[self.method].layer.presets for preset in self.presets):
            return f"method {self.method} has no preset {' or '.join(self.presets)}"
        return None

    @property
    def preset(self) -> str:
        known = METHODS[self.method].layer.presets
        return next(preset for preset in self.presets if preset in known)

    def config(self, seed: int) -> RunConfig:
        return resolve(self.method, self.backbone, self.preset, seed, self.overrides)

    def command(self, data: str, seed: int, data_options: Mapping[str, Any]) -> str:
        """Return what to type for the same run alone."""
        words = ["legcf", "train", data, "--out", "RUN", "--method", self.method, "--preset", self.preset]
        words += ["--backbone", self.backbone] if self.backbone is not None else []
        words += ["--seed", str(seed)]
        for name, value in data_options.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        for key, value in _flat(self.overrides).items():
            words += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
        return shlex.join(words)


@dataclass(frozen=True)
class Run:
    """Hold a cell with a seed, on data with this content. The same settings under two names are the same run."""

    cell: Cell
    seed: int
    config: RunConfig
    content_hash: str

    @property
    def config_hash(self) -> str:
        return digest(_decisions(self.config))

    @property
    def key(self) -> str:
        return key_of(self.config_hash, self.content_hash, self.seed)


@dataclass(frozen=True)
class Plan:
    """Hold the cells of a study: those that can run, by name and seed, and why the others cannot."""

    cells: tuple[Cell, ...]
    runs: tuple[Run, ...]
    refused: Mapping[str, str]


def plan(cells: tuple[Cell, ...], seeds: int, content_hash: str) -> Plan:
    """Resolve every cell now, so that a setting that does not fit is a sentence beside its name and stops nothing."""
    runs: list[Run] = []
    refused: dict[str, str] = {}
    for cell in cells:
        if (reason := cell.unavailable()) is not None:
            refused[cell.name] = reason
            continue
        try:
            runs += [Run(cell, seed, cell.config(seed), content_hash) for seed in range(seeds)]
        except UserError as error:
            refused[cell.name] = str(error).rstrip(".")
    return Plan(cells, tuple(runs), refused)


def hash_today(config: Mapping[str, Any], config_hash: str) -> str:
    """Return the hash that a run of these settings has now: settings that came later had their defaults, and keys that
    have other names now are read under these.

    The old hash tells the version that the method had. Where that has moved on, or a setting is no more, the run is
    none of today's and keeps its hash.
    """
    try:
        stored = config_from_json(config)
    except UserError:
        return config_hash
    sections = {name: _deciding(config[name]) for name in SECTIONS}
    version = METHODS[stored.method.name].layer.version
    return digest(_decisions(stored)) if digest({"version": version, **sections}) == config_hash else config_hash


def key_of(config_hash: str, content_hash: str, seed: int) -> str:
    return digest({"config": config_hash, "data": content_hash, "seed": seed})


def _decisions(config: RunConfig) -> dict[str, Any]:
    """Return all that a result depends on: every setting with its value, so that a default that changes makes another
    run, and the version of the method. What only decides about memory, threads and files stays out."""
    sections = {name: _deciding(getattr(config, name).model_dump(mode="json")) for name in SECTIONS}
    return {"version": METHODS[config.method.name].layer.version, **sections}


def _deciding(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section without settings that decide nothing, such as a clock where no time is limited."""
    idle = _NO_DECISIONS | ({"clock"} if section.get("max_minutes") is None else set())
    return {key: value for key, value in section.items() if key not in idle}


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            result |= _flat(value, f"{prefix}{key}.")
        else:
            result[f"{prefix}{key}"] = value
    return result
