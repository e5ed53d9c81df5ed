# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: one file, replaced whole, holding everything a run needs to go on as if it had never stopped."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as from_bytes
from safetensors.torch import save_file

from legcf.core.errors import UserError
from legcf.core.files import written_whole

Tensors = dict[str, torch.Tensor]
_GROUPS = "groups"


@dataclass
class TrainingState:
    """Where a run stands. Counters only: tensors and the generator are saved beside it."""

    stage: int = 0
    epoch: int = 0
    stale: int = 0
    stage_best: float = -math.inf
    best: float = -math.inf
    best_at: list[int] = field(default_factory=list)
    best_epochs: dict[str, list[float]] = field(default_factory=dict)
    """Of every stage that was judged: its best epoch and the score of it."""
    seconds: float = 0.0
    spent: float = 0.0
    """Seconds by the clock that limits the run."""
    lines: int = 0


def save(path: Path, groups: Mapping[str, Tensors], facts: Mapping[str, Any]) -> None:
    """Named groups of tensors and JSON facts in one safetensors file."""
    tensors = {f"{group}/{name}": tensor for group, members in groups.items() for name, tensor in members.items()}
    with written_whole(path) as temporary:
        save_file(
            {name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, {"facts": json.dumps(facts)}
        )


def load(path: Path) -> tuple[dict[str, Tensors], dict[str, Any]]:
    with _read_as(path), safe_open(path, framework="pt") as file:
        facts: dict[str, Any] = json.loads((file.metadata() or {})["facts"])
        return _grouped((key, file.get_tensor(key)) for key in file.keys()), facts  # noqa: SIM118 (not a dictionary)


def read(path: Path) -> bytes:
    """The file as it is; what a killed run had begun to write beside it goes."""
    for leftover in path.parent.glob(f".{path.name}.*.part"):
        leftover.unlink(missing_ok=True)
    return path.read_bytes()


def loaded(content: bytes, path: Path) -> tuple[dict[str, Tensors], dict[str, Any]]:
    """The same from the bytes of the file at `path`, which another machine may have read."""
    with _read_as(path):
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        facts: dict[str, Any] = json.loads(header["__metadata__"]["facts"])
        return _grouped(from_bytes(content).items()), facts


@contextmanager
def _read_as(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is damaged or not a legcf file ({error}); start again or take another copy."
        ) from error


def _grouped(tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, Tensors]:
    groups: dict[str, Tensors] = {}
    for key, tensor in tensors:
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = tensor
    return groups


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> Tensors:
    """Its moments, and what its groups of parameters were given or have since been set: rates, scales, decay."""
    content = optimiser.state_dict()
    moments = {f"{index}.{name}": value for index, values in content["state"].items() for name, value in values.items()}
    groups = json.dumps(content["param_groups"]).encode()
    return {**moments, _GROUPS: torch.frombuffer(bytearray(groups), dtype=torch.uint8)}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Tensors) -> None:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key in tensors.keys() - {_GROUPS}:
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = tensors[key]
    optimiser.load_state_dict({"state": state, "param_groups": json.loads(tensors[_GROUPS].numpy().tobytes())})
