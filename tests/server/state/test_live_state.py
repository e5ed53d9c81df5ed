# SPDX-License-Identifier: Apache-2.0
"""What is read of a long log for one answer: as much as changes it, not as much as there is."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from legcf.server.background.jobs import LIGHT
from legcf.server.paging import Cursor
from legcf.server.schemas import Ask
from legcf.server.state.event_log import EventLog
from legcf.server.state.live_state import LiveState
from legcf.server.state.loaded_model import LoadedModel
from legcf.server.state.log_entries import Change, Event, Impression
from legcf.server.state.records import Records

from ...served import ITEMS

MANY = 30_000


@pytest.fixture
def state(tmp_path: Path) -> LiveState:
    log = EventLog(tmp_path / "events", create=True)
    events = [Event(f"e{n}", "u1", f"i/{n}", float(n)) for n in range(MANY)]
    shown = [Impression("u1", f"i/{n}", float(MANY + n)) for n in range(1000)]
    changes = [Change(f"i/{n % ITEMS}", n % 7 > 0, float(n)) for n in range(MANY)]
    log.write([[*events, *shown, *changes]])
    return LiveState(log)


def _instructions(state: LiveState, action: Callable[[], object]) -> int:
    """Count the instructions that SQLite runs, in thousands."""
    count = 0

    def one() -> int:
        nonlocal count
        count += 1
        return 0

    assert state.log is not None
    state.log._connection.set_progress_handler(one, 1000)
    action()
    state.log._connection.set_progress_handler(None, 0)
    return count


def test_impressions_of_a_user_with_many_events(model_file: Path, state: LiveState) -> None:
    loaded = LoadedModel.of(model_file)
    ask = Ask(user="u1", damping=0.5)
    assert len(state.situation(loaded, ask).shown) == 1000
    assert _instructions(state, lambda: state.situation(loaded, ask)) < 100 * MANY / 1000


def test_a_page_reads_what_changed_since_the_one_before(model_file: Path, state: LiveState) -> None:
    loaded = LoadedModel.of(model_file)
    first = state.situation(loaded, Ask(user="u2"))
    assert state.log is not None
    before = set(first.hidden.items.tolist())
    gone = next(item for item in range(ITEMS) if item not in before)
    back = min(before)
    state.log.write([[Change(f"i/{gone}", False, 1.0), Change(f"i/{back}", True, 1.0), Change("later", False, 1.0)]])
    ask = Ask(user="u2", cursor=first.page.encode())
    situations = [state.situation(loaded, ask)]
    assert _instructions(state, lambda: situations.append(state.situation(loaded, ask))) <= 1
    for situation in situations:
        assert set(situation.hidden.items.tolist()) == before
        assert situation.withheld.tolist() == [gone]
    now = set(state.situation(loaded, Ask(user="u2")).hidden.items.tolist())
    assert now == (before | {gone}) - {back}
    whole = state.situation(loaded, Ask(user="u2", cursor=Cursor(loaded.tag, 0).encode()))
    assert not len(whole.hidden.items), "as of the beginning of the log"
    assert set(whole.withheld.tolist()) == now


def test_what_has_to_be_read_is_counted_before(model_file: Path, state: LiveState) -> None:
    """Long reading is done beside the event loop."""
    loaded, old = LoadedModel.of(model_file), Cursor("any", 0).encode()
    assert state.num_news(loaded, Ask(user="u2"), LIGHT) == 0
    assert state.num_news(loaded, Ask(user="u2", cursor=old), LIGHT) == LIGHT
    assert state.num_news(loaded, Ask(user="u2", cursor="none of ours"), LIGHT) == LIGHT
    assert state.num_news(loaded, Ask(user="u2", cursor=Cursor("any", 0, changes=MANY).encode()), LIGHT) == 0
    assert state.num_news(loaded, Ask(user="u1"), LIGHT) == LIGHT


def test_a_page_of_items_counts_events_in_one_pass(model_file: Path, state: LiveState) -> None:
    records = Records(LoadedModel.of(model_file), state)
    assert {one["events"] for one in records.items(0, ITEMS)["items"]} == {1}
    assert _instructions(state, lambda: json.dumps(records.items(0, ITEMS))) < 100 * MANY / 1000
