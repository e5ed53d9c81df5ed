# SPDX-License-Identifier: Apache-2.0
"""The event log: what was written is there once, in one order, whoever writes and whenever it is read."""

import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from legcf.core.errors import UserError
from legcf.server.state.event_log import FILE_NAME, EventLog, LogMark
from legcf.server.state.log_entries import TAKEN_BACK, Change, DeletedUser, Event, new_event


def _events(first: int, last: int) -> list[Event]:
    return [Event(f"e{n}", f"u{n % 3}", f"i{n}", float(n)) for n in range(first, last)]


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(tmp_path / "log", create=True)


def test_an_event_counts_once_whatever_is_sent_again(log: EventLog) -> None:
    assert log.write([_events(0, 4), _events(2, 6)]) == [4, 2]
    assert log.write([_events(0, 6)]) == [0]
    changed = Event("e0", "other", "other", 9.0)  # the first that came under an id is the one
    assert log.write([[changed, new_event("u0", "i9"), new_event("u0", "i9")]]) == [2]
    _, events = EventLog(log.folder).since()
    assert [event.id for event in events][:6] == [f"e{n}" for n in range(6)]
    assert log.of_user("u0")[:2] == [(1, "i0", None), (4, "i3", None)]


def test_kinds_and_weights_are_kept_and_older_logs_get_them(log: EventLog) -> None:
    weighed = Event("e1", "u", "i", 1.0, "buy", 10.0)
    log.write([[weighed, Event("e2", "u", "j", 2.0, weight=TAKEN_BACK)]])
    assert next(log.since()[1]) == weighed
    assert log.of_user("u") == [(1, "i", 10.0), (2, "j", 0.0)]
    log.close()
    with sqlite3.connect(log.folder / FILE_NAME) as connection:  # as an earlier version made it
        connection.execute("ALTER TABLE events DROP COLUMN kind")
        connection.execute("ALTER TABLE events DROP COLUMN weight")
    connection.close()
    assert [event.weight for event in EventLog(log.folder).since()[1]] == [None, None]
    assert EventLog(log.folder).of_user("u") == [(1, "i", None), (2, "j", None)]
    again = EventLog(log.folder, create=True)
    assert again.write([[weighed, Event("e3", "u", "i", 3.0, "hide", -1.0)]]) == [1]
    assert again.of_user("u")[-1] == (3, "i", -1.0)


def test_a_mark_says_what_a_model_knows(log: EventLog, tmp_path: Path) -> None:
    log.write([_events(0, 5)])
    mark, events = log.since()
    log.write([_events(5, 7)])  # while somebody reads
    assert [event.id for event in events] == ["e0", "e1", "e2", "e3", "e4"]
    card: dict[str, object] = {}
    mark.to_card(card)
    assert LogMark.from_card(card) == LogMark.from_card({"metrics": card}) == mark
    later, events = log.since(mark)
    assert [event.id for event in events] == ["e5", "e6"]
    assert list(log.since(later)[1]) == []
    other = EventLog(tmp_path / "other", create=True)  # a mark of one log says nothing of another
    other.write([_events(0, 2)])
    assert len(list(other.since(mark)[1])) == 2
    assert LogMark.from_card({}) is None


def test_writers_side_by_side(log: EventLog) -> None:
    def write(part: int) -> None:
        own = EventLog(log.folder)
        for n in range(20):
            own.write([[Event(f"{part}-{n}", "u", "i", 0.0), Event(f"shared-{n}", "u", "i", 0.0)]])
        own.close()

    threads = [threading.Thread(target=write, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(log) == 3 * 20 + 20


def test_a_transaction_is_there_whole_or_not_at_all(log: EventLog) -> None:
    with pytest.raises(Exception, match="NOT NULL"):
        log.write([_events(0, 2), [Event("e9", "u", None, 0.0)]])  # type: ignore[arg-type]
    assert len(log) == 0
    assert log.write([_events(0, 2)]) == [2]


def test_many_at_once(log: EventLog) -> None:
    assert log.write([_events(0, 1500), _events(1000, 2600)]) == [1500, 1100]
    assert [event.id for event in log.since()[1]] == [f"e{n}" for n in range(2600)]


def test_any_text_is_an_id(log: EventLog) -> None:
    odd = [Event(name, name, name, 0.0) for name in ("a\0b", "a\0c", "", "é\n'\"", "\u202e")]
    assert log.write([odd]) == [5]
    assert list(log.since()[1]) == odd
    assert log.of_user("a\0c") == [(2, "a\0c", None)]


def test_availability_in_the_order_it_was_told(log: EventLog) -> None:
    log.write([[Change("a", False, 1.0), Change("b", False, 2.0)], [Change("a", True, 3.0)]])
    assert log.changes(0) == [(1, "a", 0), (2, "b", 0), (3, "a", 1)]
    assert log.changes(2) == [(3, "a", 1)]
    assert log.unavailable() == (3, ["b"])
    assert sorted(log.undone_changes(1)) == [("a", 0), ("b", 1)]
    assert log.undone_changes(3) == []
    assert (log.count_changes(1, 9), log.count_changes(1, 1)) == (2, 1)


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no events"):
        EventLog(tmp_path)
    (tmp_path / "events.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(UserError, match="cannot be opened as a log"):
        EventLog(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be opened as a log"):
        EventLog(tmp_path / "file", create=True)


def test_whoever_reads_neither_waits_for_a_transaction_nor_sees_half_of_it(log: EventLog) -> None:
    counts: list[int] = []
    reader = threading.Thread(target=lambda: counts.append(len(log)))
    with log._transaction():
        log._insert("events (id, user, item, time)", [("e", "u", "i", 1.0)])
        reader.start()
        reader.join(10)
    assert (counts, len(log)) == ([0], 1)


@pytest.mark.skipif(os.name != "posix", reason="rights are of another kind")
def test_nobody_else_can_read_the_log(log: EventLog) -> None:
    log.write([_events(0, 1)])
    assert stat.S_IMODE(log.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in log.folder.iterdir()} == {0o600}


def test_a_clock_that_is_set_back_changes_no_order(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    for position, now in enumerate((2e9, 1e9, 0.0, -5.0, 1.5e9)):
        monkeypatch.setattr("time.time", lambda now=now: now)
        log.write([[new_event("u", f"i{position}")]])
    mark, events = log.since()
    assert [event.item for event in events] == [f"i{position}" for position in range(5)]
    assert [item for _, item, _ in log.of_user("u")] == [f"i{position}" for position in range(5)]
    assert list(log.since(mark)[1]) == []


def test_what_a_removed_log_refuses_does_not_show_in_answers(log: EventLog) -> None:
    log.write([_events(0, 4)])
    for path in log.folder.iterdir():
        path.unlink()
    before = log.of_user("u0")
    for entry in (new_event("u0", "i9"), DeletedUser("u0", 1.0)):
        with pytest.raises(OSError, match="was removed"):
            log.write([[entry]])
    assert log.of_user("u0") == before
    assert not log.query("SELECT * FROM deleted_users")
