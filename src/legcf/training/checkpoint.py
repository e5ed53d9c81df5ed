# SPDX-License-Identifier: Apache-2.0
"""Write and read checkpoints: one file, replaced whole, with all that a run needs to go on as if never stopped."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save_file

from legcf.core.arrays import Arrays
from legcf.core.errors import UserError
from legcf.core.files import parse_json, written_whole

_GROUPS = "groups"
_Values = TypeVar("_Values")


@dataclass
class TrainingState:
    """Count how far a run has come; tensors and the generator are saved beside it."""

    stage: int = 0
    epoch: int = 0
    stale: int = 0
    stage_best: float = -math.inf
    best: float = -math.inf
    best_at: list[int] = field(default_factory=list)
    best_epochs: dict[str, list[float]] = field(default_factory=dict)
    """The best epoch of every stage that was validated, and its score."""
    seconds: float = 0.0
    spent: float = 0.0
    """Seconds by the clock that limits the run."""
    lines: int = 0


class RunLog:
    """Keep the lines that a run reports: in memory, in metrics.jsonl of its folder, and for whoever listens."""

    def __init__(self, folder: Path | None, listener: Callable[[dict[str, Any]], None] | None) -> None:
        self.lines: list[dict[str, Any]] = []
        self._path = None if folder is None else folder / "metrics.jsonl"
        self._listener = listener

    def add(self, line: dict[str, Any], shown: dict[str, Any]) -> None:
        """Keep a line; `shown` is for the listener alone, since another run would not have it again."""
        self.lines.append(line)
        if self._path is not None:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        if self._listener is not None:
            self._listener({**line, **shown})

    def delete(self) -> None:
        """Drop the file of an earlier attempt."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def restore(self, count: int) -> None:
        """Take over the first lines of the file, and drop what was reported after a checkpoint."""
        if self._path is None:
            return
        try:
            written = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
            kept = written[:count]
            self.lines = [parse_json(line) for line in kept]
        except (OSError, ValueError) as error:
            raise UserError(f"{self._path} is damaged ({error}): start the run again.") from error
        with written_whole(self._path) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def save(path: Path, groups: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any]) -> None:
    """Write named groups of arrays (or tensors) and JSON facts as one safetensors file."""
    named = ((group, name, tensor) for group, members in groups.items() for name, tensor in members.items())
    arrays = {f"{group}/{name}": np.asarray(tensor, order="C") for group, name, tensor in named}
    with written_whole(path) as temporary:
        try:
            save_file(arrays, temporary, {"facts": json.dumps(facts)})
        except SafetensorError as error:  # a full disk
            raise OSError(str(error).removeprefix("Error while serializing: ")) from error


def load(path: Path) -> tuple[dict[str, Arrays], dict[str, Any]]:
    with _read_as(path), safe_open(path, framework="np") as file:
        facts: dict[str, Any] = json.loads((file.metadata() or {})["facts"])
        return grouped((key, file.get_tensor(key)) for key in file.keys()), facts  # noqa: SIM118 (not a dictionary)


def read(path: Path) -> bytes:
    """Return the bytes of the file, and delete what a killed run had begun to write beside it."""
    for leftover in path.parent.glob(f".{path.name}.*.part"):
        leftover.unlink(missing_ok=True)
    return path.read_bytes()


def loaded(content: bytes, path: Path) -> tuple[dict[str, Arrays], dict[str, Any]]:
    """Load from the bytes of the file at `path`, which another machine may have read."""
    with _read_as(path):
        header = parse_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
        facts = parse_json(header["__metadata__"]["facts"])
        if not isinstance(facts, dict):
            raise TypeError("its facts are no object")
        return grouped((key, array.copy()) for key, array in from_bytes(content).items()), facts


@contextmanager
def _read_as(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{path} is damaged or not a legcf file ({reason}); start again or take another copy."
        ) from error


def grouped(arrays: Iterable[tuple[str, _Values]]) -> dict[str, dict[str, _Values]]:
    """Return pairs ("group/name", values) as {"group": {"name": values}}."""
    groups: dict[str, dict[str, _Values]] = {}
    for key, values in arrays:
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = values
    return groups


def optimiser_tensors(optimiser: Any) -> dict[str, Any]:
    """Return the moments of an optimiser and the settings of its parameter groups: rates, scales, decay."""
    content = optimiser.state_dict()
    moments = {f"{index}.{name}": value for index, values in content["state"].items() for name, value in values.items()}
    groups = json.dumps(content["param_groups"]).encode()
    return {**moments, _GROUPS: np.frombuffer(bytearray(groups), dtype=np.uint8)}


def restore_optimiser(optimiser: Any, tensors: Mapping[str, Any]) -> None:
    """Give an optimiser back what `optimiser_tensors` returned."""
    state: dict[int, dict[str, Any]] = {}
    for key in tensors.keys() - {_GROUPS}:
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = tensors[key]
    optimiser.load_state_dict({"state": state, "param_groups": json.loads(np.asarray(tensors[_GROUPS]).tobytes())})
