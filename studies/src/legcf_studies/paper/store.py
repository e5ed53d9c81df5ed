# SPDX-License-Identifier: Apache-2.0
"""Keep results in one SQLite file, one row per run. One process writes it; any number may read it meanwhile."""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf_studies.paper.cells import Run
from legcf_studies.workers.process import Outcome

STORE_VERSION = 1
_APPLICATION = 0x6C656763  # "legc": tells our files from other SQLite databases
_WAIT_SECONDS = 60.0

_SCHEMA = """
CREATE TABLE runs (
    key TEXT PRIMARY KEY, cell TEXT NOT NULL, dataset TEXT NOT NULL, seed INTEGER NOT NULL,
    config_hash TEXT NOT NULL, content_hash TEXT NOT NULL, code_version TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'failed', 'stopped')),
    error TEXT, started REAL, ended REAL, attempts INTEGER NOT NULL DEFAULT 0,
    seconds REAL, peak_memory_mb REAL, machine TEXT, command TEXT, config TEXT NOT NULL, metrics TEXT, curve TEXT
);
CREATE TABLE per_user (
    key TEXT NOT NULL REFERENCES runs(key), metric TEXT NOT NULL, float32 BLOB NOT NULL, PRIMARY KEY (key, metric)
);
CREATE TABLE states (key TEXT PRIMARY KEY REFERENCES runs(key), safetensors BLOB NOT NULL);
CREATE TABLE studies (
    study TEXT NOT NULL, dataset TEXT NOT NULL, preset TEXT NOT NULL, plan TEXT NOT NULL, updated REAL NOT NULL,
    PRIMARY KEY (study, dataset, preset)
);
"""


@dataclass(frozen=True)
class StoredRun:
    """Hold a run as the store knows it."""

    key: str
    cell: str
    dataset: str
    seed: int
    config_hash: str
    content_hash: str
    code_version: str
    status: str
    error: str | None
    attempts: int
    seconds: float | None
    peak_memory_mb: float | None
    started: float | None
    ended: float | None
    command: str | None
    machine: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    curve: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


_NESTED = ("machine", "config", "metrics", "curve")
_PLAIN = [name for name in StoredRun.__dataclass_fields__ if name not in _NESTED]
_COLUMNS = ", ".join((*_PLAIN, *_NESTED))
_NAME_OF_STUDY = ("study", "dataset", "preset")
_THIS_STUDY = " AND ".join(f"{name} = ?" for name in _NAME_OF_STUDY)
DRAWING = "drawing"
"""In a study's plan: what its figures show, with the keys of the runs that it was made from."""


class ResultStore:
    """Write and read the runs and studies of a results store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
            self._prepare()
        except (sqlite3.DatabaseError, OSError) as error:
            raise UserError(f"{path} cannot be used as a results store: {error}.") from error

    @classmethod
    def existing(cls, path: Path) -> ResultStore:
        if not path.is_file():
            raise UserError(f"There is no results store {path}: `legcf reproduce table2 --data DATA` makes one.")
        return cls(path)

    @property
    def work_folder(self) -> Path:
        """Return where unfinished runs keep their checkpoints."""
        return self.path.with_name(f"{self.path.name}.work")

    # What is written ----------------------------------------------------------------------------------------------

    def begin(self, run: Run, dataset: str, code_version: str) -> None:
        """Note that the run is under way, once more if it was before."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO runs (key, cell, dataset, seed, config_hash, content_hash, code_version, status,"
                " started, attempts, config) VALUES (?, ?, ?, ?, ?, ?, ?, 'running', ?, 1, ?)"
                " ON CONFLICT (key) DO UPDATE SET status = 'running', started = excluded.started,"
                " code_version = excluded.code_version, error = NULL, ended = NULL, attempts = attempts + 1",
                (
                    run.key, run.cell.name, dataset, run.seed, run.config_hash, run.content_hash, code_version,
                    time.time(), json.dumps(run.config.to_json()),
                ),
            )  # fmt: skip

    def finish(self, key: str, outcome: Outcome, command: str) -> None:
        """Record what a run came to, and what to type for it."""
        metrics = outcome.metrics
        with self._writing() as connection:
            for name, values in outcome.per_user.items():
                packed = zlib.compress(np.ascontiguousarray(values, dtype="<f4").tobytes(), 6)
                connection.execute("INSERT OR REPLACE INTO per_user VALUES (?, ?, ?)", (key, name, packed))
            if outcome.state is not None:
                connection.execute("INSERT OR REPLACE INTO states VALUES (?, ?)", (key, zlib.compress(outcome.state)))
            connection.execute(
                "UPDATE runs SET status = 'finished', error = NULL, ended = ?, seconds = ?, peak_memory_mb = ?,"
                " machine = ?, command = ?, metrics = ?, curve = ? WHERE key = ?",
                (
                    time.time(), _training_seconds(metrics), metrics.get("peak_rss_mb"), json.dumps(outcome.machine),
                    command, json.dumps(metrics), json.dumps(outcome.curve), key,
                ),
            )  # fmt: skip

    def take_in(self, runs: Iterable[Mapping[str, Any]], studies: Iterable[Mapping[str, Any]] = ()) -> int:
        """Take in finished runs and studies that another store wrote (`StoredRun.to_json`); return how many are new.

        Per-user values are not among them, so such runs are shown, but not tested against others.
        """
        values = [
            [json.dumps(run[name]) if name in _NESTED else run[name] for name in (*_PLAIN, *_NESTED)]
            for run in runs
            if run["status"] == "finished"
        ]
        marks = ", ".join("?" * len((*_PLAIN, *_NESTED)))
        with self._writing() as connection:
            before = connection.total_changes
            connection.executemany(f"INSERT OR IGNORE INTO runs ({_COLUMNS}) VALUES ({marks})", values)
            taken = connection.total_changes - before
            for study in studies:
                name = [study[part] for part in _NAME_OF_STUDY]
                plan = json.dumps({key: value for key, value in study.items() if key not in _NAME_OF_STUDY})
                connection.execute("INSERT OR IGNORE INTO studies VALUES (?, ?, ?, ?, ?)", (*name, plan, time.time()))
        return taken

    def fail(self, key: str, error: str) -> None:
        self._end(key, "failed", error)

    def release(self, key: str) -> None:
        """Note that the run was stopped and may go on later."""
        self._end(key, "stopped", None)

    def _end(self, key: str, status: str, error: str | None) -> None:
        with self._writing() as connection:
            connection.execute(
                "UPDATE runs SET status = ?, error = ?, ended = ? WHERE key = ? AND status = 'running'",
                (status, error, time.time(), key),
            )

    # What is known ------------------------------------------------------------------------------------------------

    def rows(self) -> dict[str, StoredRun]:
        """Return every run by its key."""
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY cell, seed")
        return {values[0]: _row(values) for values in rows}

    def status(self, key: str) -> tuple[str, str | None]:
        """Return status and error of a run; ("missing", None) for one that nobody has begun."""
        row = self._connection.execute("SELECT status, error FROM runs WHERE key = ?", (key,)).fetchone()
        return ("missing", None) if row is None else (row[0], row[1])

    def per_user(self, key: str) -> dict[str, NDArray[np.float32]]:
        rows = self._connection.execute("SELECT metric, float32 FROM per_user WHERE key = ?", (key,))
        return {name: np.frombuffer(zlib.decompress(blob), dtype="<f4") for name, blob in rows}

    def state(self, key: str) -> bytes | None:
        row = self._connection.execute("SELECT safetensors FROM states WHERE key = ?", (key,)).fetchone()
        return None if row is None else zlib.decompress(row[0])

    def remember_study(self, study: str, dataset: str, effort: str, plan: Mapping[str, Any]) -> None:
        """Note which runs make up a table, so that the report needs nothing but the store. A drawing stays."""
        name = (study, dataset, effort)
        with self._writing() as connection:
            row = connection.execute(f"SELECT plan FROM studies WHERE {_THIS_STUDY}", name).fetchone()
            drawn = {key: value for key, value in json.loads(row[0]).items() if key == DRAWING} if row else {}
            values = (*name, json.dumps({**drawn, **plan}), time.time())
            connection.execute("INSERT OR REPLACE INTO studies VALUES (?, ?, ?, ?, ?)", values)

    def remember_drawing(self, study: str, dataset: str, effort: str, drawing: Mapping[str, Any]) -> None:
        """Note what the figures of a remembered study show."""
        with self._writing() as connection:
            connection.execute(
                f"UPDATE studies SET plan = json_set(plan, '$.{DRAWING}', json(?)) WHERE {_THIS_STUDY}",
                (json.dumps(dict(drawing)), study, dataset, effort),
            )

    def studies(self) -> list[dict[str, Any]]:
        rows = self._connection.execute("SELECT study, dataset, preset, plan FROM studies ORDER BY rowid").fetchall()
        return [{**dict(zip(_NAME_OF_STUDY, name, strict=True)), **json.loads(plan)} for *name, plan in rows]

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection
            self._connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise UserError(f"Cannot write to the results store {self.path}: {error}.") from error
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _prepare(self) -> None:
        """Lay out a new file, or check that an old one is ours and of this version."""
        if not self._tables():
            with self._writing() as connection:
                if not self._tables():  # another process may have been first
                    for statement in _SCHEMA.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {STORE_VERSION}")
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise UserError(f"{self.path} is a database of something else; choose another --store.")
        if version != STORE_VERSION:
            raise UserError(
                f"{self.path} has store version {version}, this legcf reads {STORE_VERSION}; choose another --store."
            )

    def _tables(self) -> list[str]:
        return [name for (name,) in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def _training_seconds(metrics: Mapping[str, Any]) -> float | None:
    """Return the seconds of set-up, training over all sessions of a resumed run, and evaluation."""
    seconds = metrics.get("seconds", {})
    return sum(seconds.get(part, 0.0) for part in ("set_up", "train", "evaluate")) if seconds else None


def _row(values: tuple[Any, ...]) -> StoredRun:
    plain = dict(zip(_PLAIN, values, strict=False))
    nested = {name: json.loads(text) for name, text in zip(_NESTED, values[len(_PLAIN) :], strict=True) if text}
    return StoredRun(**plain, **{name: value for name, value in nested.items() if value})
