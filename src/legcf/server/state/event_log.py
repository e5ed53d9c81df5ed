# SPDX-License-Identifier: Apache-2.0
"""Keep the event log: what users did and were shown, which items are available and what new ones are like, as reported
to a running server. One SQLite file in a folder.

Whoever writes gets an answer once the transaction is on disk (write-ahead log, synced at every commit), so a process
may be killed at any moment: what was acknowledged is there. Ids of events are unique, so that what a client sends again
is counted once. Transactions of several processes come one after the other: the log has one order, and a position in it
says exactly which events a model knows.
"""

import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legcf.core.errors import UserError
from legcf.server.state.log_entries import (
    Change,
    DeletedItem,
    DeletedUser,
    Described,
    Event,
    Impression,
    LogEntry,
    Withdrawn,
)

FILE_NAME = "events.sqlite"
_TIMEOUT_SECONDS = 30.0  # for a transaction of another process to end
MARK_KEY = "events"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE, user TEXT NOT NULL, item TEXT NOT NULL, time REAL NOT NULL, kind TEXT, weight REAL
);
CREATE INDEX IF NOT EXISTS events_of_user ON events (user);
CREATE INDEX IF NOT EXISTS events_of_pair ON events (user, item, time);
CREATE TABLE IF NOT EXISTS availability (
    position INTEGER PRIMARY KEY AUTOINCREMENT, item TEXT NOT NULL, available INTEGER NOT NULL, time REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS availability_of_item ON availability (item, position, available);
CREATE TABLE IF NOT EXISTS items (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    item TEXT NOT NULL, features TEXT NOT NULL, title TEXT, time REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS impressions (
    position INTEGER PRIMARY KEY AUTOINCREMENT, user TEXT NOT NULL, item TEXT NOT NULL, time REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS impressions_of_user ON impressions (user);
CREATE TABLE IF NOT EXISTS deleted_users (
    position INTEGER PRIMARY KEY AUTOINCREMENT, user TEXT NOT NULL UNIQUE, time REAL NOT NULL
);
"""
_LATER_COLUMNS = {"kind": "TEXT", "weight": "REAL"}  # of events, which logs of earlier versions do not have
_MAX_ROWS = 1000  # in one statement


def _is_position(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


_Row = tuple[object, ...]
_ITEMS = "items (item, features, title, time)"
_EVENTS = "events (id, user, item, time, kind, weight)"
_IMPRESSIONS = "impressions (user, item, time)"
_KEPT_IMPRESSIONS = 1000  # of one user, the last: each is read for every answer that counts them
_FORGET_IMPRESSIONS = f"""
WITH shown_to (user) AS (VALUES %s) DELETE FROM impressions WHERE position IN (
    SELECT position FROM shown_to JOIN impressions USING (user) WHERE position <= (
        SELECT position FROM impressions AS all_of WHERE all_of.user = shown_to.user
        ORDER BY position DESC LIMIT 1 OFFSET {_KEPT_IMPRESSIONS}
    )
)
"""
_NO_FEATURES = "null"  # in the table of items: what was said before is withdrawn


class _Rows:
    """Collect rows that are not yet written, by the table and columns that they go into."""

    def __init__(self) -> None:
        self.of: dict[str, list[_Row]] = {}
        self.count = 0

    def add(self, into: str, *row: object) -> None:
        self.of.setdefault(into, []).append(row)
        self.count += 1


@dataclass(frozen=True)
class LogMark:
    """Say how far into which log a model knows events, and descriptions of items. It travels inside the model: both are
    there or neither is."""

    log: str
    position: int
    described: int = 0

    def to_card(self, card: dict[str, Any]) -> None:
        """Put the mark into the metrics of a run, which `legcf export` copies into the model file."""
        card[MARK_KEY] = {"log": self.log, "position": self.position, "described": self.described}

    @classmethod
    def from_card(cls, card: Mapping[str, Any]) -> "LogMark | None":
        """Read the mark of a run's metrics, or of a model file's card, which holds them."""
        metrics = card.get("metrics")
        mark = card.get(MARK_KEY) or (metrics.get(MARK_KEY) if isinstance(metrics, dict) else None)
        if not isinstance(mark, dict) or not _is_position(mark.get("position")):
            return None
        described = mark.get("described", 0)  # older marks have none
        return cls(str(mark.get("log")), mark["position"], described if _is_position(described) else 0)


class EventLog:
    """Read and write the log, by a connection for each thread that does; any number of processes may have it open."""

    def __init__(self, folder: Path | str, create: bool = False) -> None:
        self.folder = Path(folder)
        self._thread = threading.local()
        self._connections: list[sqlite3.Connection] = []
        path = self.folder / FILE_NAME
        if not create and not path.is_file():
            raise UserError(f"{folder} holds no events: give the folder of `legcf serve --accept-events`.")
        try:
            if create:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.touch(mode=0o600)  # it says who took what; SQLite gives its other files the same rights
                self._connection.execute("PRAGMA journal_mode = WAL")
                with self._transaction():
                    for statement in _SCHEMA.split(";"):
                        self._connection.execute(statement)
                    for name in _LATER_COLUMNS.keys() - self._columns():
                        self._connection.execute(f"ALTER TABLE events ADD COLUMN {name} {_LATER_COLUMNS[name]}")
                    if not self._number("SELECT count(*) FROM log"):
                        self._connection.execute("INSERT INTO log VALUES (?)", (uuid.uuid4().hex,))
            self.name: str = self._connection.execute("SELECT name FROM log").fetchone()[0]
            count = "SELECT count(*) FROM sqlite_master WHERE name = 'items'"
            self._describes = self._number(count) > 0  # older logs do not, until a server opens them
            self._files = self._files_now()
            self._weight = "weight" if "weight" in self._columns() else "NULL"
        except (OSError, sqlite3.Error, TypeError, ValueError) as error:
            raise UserError(f"{path} cannot be opened as a log of events: {error}.") from error

    @property
    def _connection(self) -> sqlite3.Connection:
        """Return this thread's connection: whoever reads neither waits for a transaction nor sees half of it."""
        connection: sqlite3.Connection | None = getattr(self._thread, "connection", None)
        if connection is None:
            uri = f"{(self.folder / FILE_NAME).absolute().as_uri()}?mode=rw"  # one that was removed is not made anew
            options: dict[str, Any] = {"timeout": _TIMEOUT_SECONDS, "isolation_level": None, "check_same_thread": False}
            connection = sqlite3.connect(uri, uri=True, **options)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
            self._thread.connection = connection
            self._connections.append(connection)
        return connection

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._connections:
            connection.close()

    def write(self, batches: Sequence[Sequence[LogEntry]]) -> list[int]:
        """Write all batches in one transaction, on disk when this returns; return how many of each were new.

        Files that were removed or replaced meanwhile are an OSError: SQLite would go on writing to those that are gone.
        """
        counts, is_deleting = [], False
        with self._transaction():
            ids = [entry.id for batch in batches for entry in batch if isinstance(entry, Event)]
            logged_ids, rows = self._logged_ids(ids), _Rows()
            for batch in batches:
                before = rows.count
                for entry in batch:
                    if isinstance(entry, DeletedUser | DeletedItem):
                        self._insert_all(rows)  # what came before is deleted, too
                        self._delete(entry)
                        is_deleting = True
                        rows.count += 1
                    elif isinstance(entry, Change):
                        rows.add("availability (item, available, time)", *entry)
                    elif isinstance(entry, Impression):
                        rows.add(_IMPRESSIONS, *entry)
                    elif isinstance(entry, Described):
                        features = json.dumps(dict(entry.features))
                        rows.add(_ITEMS, entry.item, features, entry.title, entry.time)
                    elif isinstance(entry, Withdrawn):
                        if self._is_described(entry.item, rows.of.get(_ITEMS, ())):
                            rows.add(_ITEMS, entry.item, _NO_FEATURES, None, entry.time)
                    elif entry.id not in logged_ids:
                        logged_ids.add(entry.id)
                        rows.add(_EVENTS, *entry)
                counts.append(rows.count - before)
            shown_to = list({row[0] for row in rows.of.get(_IMPRESSIONS, ())})
            self._insert_all(rows)
            for start in range(0, len(shown_to), _MAX_ROWS):
                users = shown_to[start : start + _MAX_ROWS]
                self._connection.execute(_FORGET_IMPRESSIONS % ", ".join(["(?)"] * len(users)), users)
            self._check_files()  # what is refused must not show in answers either
        if is_deleting:  # the write-ahead log still has the rows
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._check_files()
        return counts

    def _check_files(self) -> None:
        if self._files_now() != self._files:
            raise OSError(f"{self.folder / FILE_NAME} was removed or replaced: start the server again")

    def _files_now(self) -> list[tuple[int, int]]:
        """Return device and inode of the log and of SQLite's write-ahead log, which lies beside it while it is open."""
        path = self.folder / FILE_NAME
        states = [os.stat(name) for name in (path, f"{path}-wal") if os.path.exists(name)]
        return [(state.st_dev, state.st_ino) for state in states]

    def _insert_all(self, rows: "_Rows") -> None:
        for into, some in rows.of.items():
            self._insert(into, some)
        rows.of.clear()

    def _delete(self, entry: DeletedUser | DeletedItem) -> None:
        execute = self._connection.execute
        if isinstance(entry, DeletedUser):
            for table in ("events", "impressions", "deleted_users"):
                execute(f"DELETE FROM {table} WHERE user = ?", (entry.user,))
            execute("INSERT INTO deleted_users (user, time) VALUES (?, ?)", (entry.user, entry.time))
            return
        is_described = self._is_described(entry.item, ())
        for table in ("events", "impressions", "availability", "items"):
            execute(f"DELETE FROM {table} WHERE item = ?", (entry.item,))
        execute("INSERT INTO availability (item, available, time) VALUES (?, 0, ?)", (entry.item, entry.time))
        if is_described:  # every worker looks for rows behind the last one that it knows
            execute(f"INSERT INTO {_ITEMS} VALUES (?, ?, NULL, ?)", (entry.item, _NO_FEATURES, entry.time))

    def query(self, question: str, *values: object) -> list[Any]:
        """Return all rows that answer a question in SQL."""
        return self._connection.execute(question, values).fetchall()

    def rows_of(self, table: str, user: str) -> list[dict[str, Any]]:
        """Return all that a table has of a user, by the names of its columns, in the order of the log."""
        found = self._connection.execute(f"SELECT * FROM {table} WHERE user = ? ORDER BY position", (user,))
        names = [name for name, *_ in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]

    def end(self) -> LogMark:
        return LogMark(self.name, self._number("SELECT max(position) FROM events"), self.last_description)

    def position_in(self, mark: LogMark | None) -> int:
        """Return up to where a model knows this log; 0 if its mark is of another one."""
        return mark.position if mark is not None and mark.log == self.name else 0

    def since(self, mark: LogMark | None = None) -> tuple[LogMark, Iterator[Event]]:
        """Return every event that a model with this mark does not know, once each in the order of the log, and the mark
        of a model that knows them."""
        first, end = self.position_in(mark), self.end()
        kind = "kind" if self._weight == "weight" else "NULL"
        rows = self._connection.execute(
            f"SELECT id, user, item, time, {kind}, {self._weight} FROM events"
            " WHERE position > ? AND position <= ? ORDER BY position",
            (first, end.position),
        )
        return end, (Event(*row) for row in rows)

    def of_user(self, user: str, after: int = 0, until: int | None = None) -> list[tuple[int, str, float | None]]:
        """Return positions, items and weights of a user's events behind a position and up to one.

        For each item these are the last that took it, the last that took it back and the last dislike, which say all.
        SQLite leaves out what comes again, without Python's lock: a hundred thousand events hold nobody else up.
        """
        some = "FROM events WHERE user = ? AND position > ? AND position <= ?"
        sign = f"CASE WHEN {self._weight} < 0 THEN -1 WHEN {self._weight} = 0 THEN 0 ELSE 1 END"
        question = f"SELECT max(position), item, {self._weight} {some} GROUP BY item, {sign} ORDER BY 1"
        return self.query(question, user, after, 2**63 - 1 if until is None else until)

    def count_of_user(self, user: str, after: int, at_most: int) -> int:
        """Count a user's events behind a position, but no further than `at_most`."""
        some = "SELECT 1 FROM events WHERE user = ? AND position > ? LIMIT ?"
        return self._number(f"SELECT count(*) FROM ({some})", user, after, at_most)

    def changes(self, after: int) -> list[tuple[int, str, int]]:
        """Return position, item and availability of every change behind a position."""
        return self.query(
            "SELECT position, item, available FROM availability WHERE position > ? ORDER BY position", after
        )

    def count_of_items(self, items: Sequence[str]) -> dict[str, int]:
        """Count the events of each item that has any, in one pass."""
        some = ", ".join("?" * len(items))
        return dict(self.query(f"SELECT item, count(*) FROM events WHERE item IN ({some}) GROUP BY item", *items))

    def count_changes(self, after: int, at_most: int) -> int:
        """Count the changes of availability behind a position, but no further than `at_most`."""
        some = "SELECT 1 FROM availability WHERE position > ? LIMIT ?"
        return self._number(f"SELECT count(*) FROM ({some})", after, at_most)

    def unavailable(self) -> tuple[int, list[str]]:
        """Return the position of the last change, and the items that are not available after it."""
        last = "SELECT item, available, max(position) FROM availability GROUP BY item"
        out = [item for (item,) in self.query(f"SELECT item FROM ({last}) WHERE NOT available")]
        return self._number("SELECT max(position) FROM availability"), out

    def undone_changes(self, until: int) -> list[tuple[str, int]]:
        """Return the items that changed behind a position, with their availability as of that position."""
        some = "SELECT available FROM availability WHERE item = later.item AND position <= ?"
        before = f"{some} ORDER BY position DESC LIMIT 1"
        later = "SELECT DISTINCT item FROM availability NOT INDEXED WHERE position > ?"  # by position, not by item
        return self.query(f"SELECT item, coalesce(({before}), 1) FROM ({later}) AS later", until, until)

    @property
    def last_description(self) -> int:
        """Return the position of the last description or withdrawal."""
        return self._number("SELECT max(position) FROM items") if self._describes else 0

    def descriptions(self, after: int = 0) -> list[Described]:
        """Return the last description of each item behind a position, but for those that were withdrawn."""
        if not self._describes:
            return []
        rows = self.query("SELECT item, features, title, time FROM items WHERE position > ? ORDER BY position", after)
        last: dict[str, Described] = {}
        for item, features, title, at in rows:
            if features == _NO_FEATURES:
                last.pop(item, None)
            else:
                last[item] = Described(item, json.loads(features), title, at)
        return list(last.values())

    def _columns(self) -> set[str]:
        return {name for _, name, *_ in self._connection.execute("PRAGMA table_info(events)")}

    def __len__(self) -> int:
        return self._number("SELECT count(*) FROM events")

    def _number(self, question: str, *values: object) -> int:
        return int(self._connection.execute(question, values).fetchone()[0] or 0)

    def _logged_ids(self, ids: Sequence[str]) -> set[str]:
        """Return those of the ids that are in the log."""
        logged: set[str] = set()
        for start in range(0, len(ids), _MAX_ROWS):
            some = ids[start : start + _MAX_ROWS]
            question = f"SELECT id FROM events WHERE id IN ({', '.join('?' * len(some))})"
            logged.update(name for (name,) in self._connection.execute(question, some))
        return logged

    def _is_described(self, item: str, unwritten: Sequence[_Row]) -> bool:
        """Return whether the last row of an item, among those that are not yet written or in the log, describes it."""
        rows = [features for name, features, *_ in unwritten if name == item]
        if not rows:
            last = "SELECT features FROM items WHERE item = ? ORDER BY position DESC LIMIT 1"
            rows = [features for (features,) in self._connection.execute(last, (item,))]
        return bool(rows) and rows[-1] != _NO_FEATURES

    def _insert(self, into: str, rows: Sequence[_Row]) -> None:
        """Insert many rows by one statement: each would hand Python's lock over once more, while answers wait."""
        for start in range(0, len(rows), _MAX_ROWS):
            some = rows[start : start + _MAX_ROWS]
            parameters = ", ".join([f"({', '.join('?' * len(some[0]))})"] * len(some))
            values = [value for row in some for value in row]
            self._connection.execute(f"INSERT INTO {into} VALUES {parameters}", values)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
