# SPDX-License-Identifier: Apache-2.0
"""What must hold of any right input, drawn by Hypothesis, which also finds the smallest input that fails.

The mutations of `targets.py` ask for no harm; these ask for the right answer.
"""

import csv
import io
import json
from abc import abstractmethod
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.modelfile.attributes import Attributes, number_column, text_column
from legcf.modelfile.served_model import ServedModel
from tests.fuzz.targets import Target

EXAMPLES = 50  # of one attempt
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ODD_IDS = st.sampled_from(
    ["007", "7", "+7", " 7", "7_0", "７", "7.0", "1e3", "9" * 30, "nan", "None", "\u202e", "a,b", '"']
)
TEXT_IDS = ANY_TEXT | ODD_IDS
INTEGER_IDS = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
IDS = st.one_of(st.lists(ids, min_size=1, max_size=9, unique=True) for ids in (TEXT_IDS, INTEGER_IDS))


class Property(Target):
    """Fifty examples in each attempt."""

    strategy: st.SearchStrategy[Any]

    def attempt(self, rng: np.random.Generator) -> int:
        self.cases = self._held = 0

        def one(example: Any) -> None:
            self.cases += 1
            self._held += self.holds(example)

        quiet = settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        seed(int(rng.integers(2**32)))(quiet(given(self.strategy)(one)))()
        return self._held

    @abstractmethod
    def holds(self, example: Any) -> bool:
        """Assert what must hold; return whether the input was accepted."""


class AnyFile(Property):
    """A model of any ids, titles and attributes comes back from its file, and finds its ids and no others."""

    strategy = st.tuples(
        IDS, IDS, st.lists(ANY_TEXT, min_size=9, max_size=9), st.lists(st.floats(), min_size=9, max_size=9)
    )

    def holds(self, example: Any) -> bool:
        from legcf.ranking.tables.embedding_table import CodebookTable

        items, users, titles, prices = example
        count = len(items)
        codes = np.arange(count)[:, None].astype(np.uint16) % 3
        rows = CodebookTable(codes, np.ones((count, 1), np.float32), np.eye(3, dtype=np.float32))
        has_prices = bool(np.isfinite(prices[:count]).any())  # a column without any is read as text
        attributes = Attributes({"price": number_column(np.array(prices[:count]))}) if has_prices else None
        model = ServedModel(
            IdMap.of(items, "item"), rows, np.ones(count, np.int64), users=IdMap.of(users, "user"),
            titles=titles[:count], attributes=attributes,
        )  # fmt: skip
        path = self.folder / "model.legcf"
        model.save(path)
        again = ServedModel.load(path)
        assert again.users is not None
        for ids, read in ((items, again.items), (users, again.users)):
            assert read.external(range(len(ids))) == ids
            assert [read.find(one) for one in ids] == list(range(len(ids)))
            assert [read.find(str(one)) for one in ids] == list(range(len(ids)))
            for other in ("0007", "+7", " 7", "7_0", "７"):
                assert (read.find(other) is None) or other in ids
        assert again.titles == titles[:count]
        return True


class AnyTable(Property):
    """Pairs of any ids come back from a table as they were written."""

    strategy = st.tuples(
        st.lists(st.tuples(TEXT_IDS, TEXT_IDS), min_size=3, max_size=30, unique=True),
        st.sampled_from(["a.csv", "a.tsv", "a.jsonl"]),
    )

    def holds(self, example: Any) -> bool:
        from legcf.data.source import load_data

        pairs, name = example
        path = self.folder / name
        if name == "a.jsonl":
            text = "".join(json.dumps({"user": user, "item": item}) + "\n" for user, item in pairs)
        else:
            file = io.StringIO()
            writer = csv.writer(
                file, delimiter="," if name == "a.csv" else "\t", quoting=csv.QUOTE_ALL, lineterminator="\n"
            )
            writer.writerows([("user", "item"), *pairs])
            text = file.getvalue()
        path.write_bytes(text.encode())
        try:
            data = load_data(path)
        except UserError:
            return False
        found = Counter[tuple[str, str]]()
        for part in (data.train, data.validation, data.test):
            users, items = data.users.external(part.users()), data.items.external(part.items)
            found.update(zip(map(str, users), map(str, items), strict=True))
        assert found == Counter(pairs)
        return True


class AnyLog(Property):
    """A log that is written, read and opened again by turns holds every event once, in the order of arrival."""

    strategy = st.lists(
        st.lists(
            st.tuples(
                st.integers(0, 30), ANY_TEXT, ANY_TEXT, st.floats(-1e12, 1e12), st.sampled_from([None, 2.0, 0.0, -1.0])
            ),
            max_size=12,
        ),
        max_size=6,
    )

    def holds(self, example: Any) -> bool:
        import shutil

        from legcf.server.state.event_log import EventLog
        from legcf.server.state.log_entries import Event

        folder = self.folder / "log"
        shutil.rmtree(folder, ignore_errors=True)
        EventLog(folder, create=True).close()
        expected: dict[str, Event] = {}
        mark = None
        for batch in example:
            log = EventLog(folder)
            before = len(expected)
            events = [Event(f"e{number}", *rest[:3], kind=None, weight=rest[3]) for number, *rest in batch]
            for event in events:
                expected.setdefault(event.id, event)
            assert log.write([events]) == [len(expected) - before]
            mark, new = log.since(mark)
            assert list(new) == list(expected.values())[before:]
            for user in {event.user for event in expected.values()}:
                own = [event for event in expected.values() if event.user == user]
                last = {(one.item, np.sign(1.0 if one.weight is None else one.weight)): one for one in own}
                kept = sorted(last.values(), key=own.index)  # the last of each kind, in the order of the log
                assert [(item, weight) for _, item, weight in log.of_user(user)] == [(e.item, e.weight) for e in kept]
                assert log.count_of_user(user, 0, 10**6) == len(own)
                assert {item for _, item, _ in log.of_user(user, until=1)} <= {own[0].item}
            log.close()
        return True


KINDS = ("red", "green", "blue", "é ☕")


class AnyAsk(Property):
    """Whatever a request asks for, what is recommended keeps to all of its rules at once."""

    def __init__(self, folder: Path) -> None:
        from legcf.export.build import build
        from legcf.export.options import ExportOptions
        from tests.served import ITEMS, make_toy, serving

        super().__init__(folder)
        toy = make_toy()
        kinds = [KINDS[item % 4] for item in range(ITEMS)] + [KINDS[item % 3] for item in range(20)]
        self._kinds = [{KINDS[item % 4], *([KINDS[item % 3]] if item < 20 else [])} for item in range(ITEMS)]
        self._prices = np.where(np.arange(ITEMS) % 7 == 0, np.nan, np.arange(ITEMS) / 4)
        holders = np.concatenate([np.arange(ITEMS), np.arange(20)])
        columns = {"kind": text_column(holders, kinds, ITEMS), "price": number_column(self._prices)}
        model = replace(build(toy, ExportOptions(t=3, c=12), toy.validation), attributes=Attributes(columns))
        self._items = {str(item): position for position, item in enumerate(toy.items.values.tolist())}
        self._histories = {
            str(user): set(toy.items.external(toy.train.items[toy.train.indptr[row] : toy.train.indptr[row + 1]]))
            for row, user in enumerate(toy.users.values.tolist())
        }
        self.strategy = _asks(list(self._histories), list(self._items))
        self._stack = ExitStack()
        base = self._stack.enter_context(serving(model, folder / "model.legcf"))
        self._client = self._stack.enter_context(httpx.Client(base_url=base, timeout=60))

    def close(self) -> None:
        self._stack.close()

    def holds(self, example: Any) -> bool:
        answer = self._client.post("/recommend", json={"requests": example})
        assert answer.status_code == 200, answer.text
        content = answer.json()
        for ask, result, error in zip(example, content["results"], content["errors"], strict=True):
            assert (result is None) != (error is None)
            if result is not None:
                self._check(ask, result["items"])
        return any(result is not None for result in content["results"])

    def _check(self, ask: dict[str, Any], found: list[dict[str, Any]]) -> None:
        ids = [one["id"] for one in found]
        scores = [one["score"] for one in found]
        assert len(set(ids)) == len(ids) <= ask["k"]
        assert not set(ids) & set(ask["deny"])
        assert ask["allow"] is None or set(ids) <= set(ask["allow"])
        if ask["exclude_seen"]:
            assert not set(ids) & (set(ask["items"]) | self._histories.get(str(ask["user"]), set()))
        assert np.isfinite(scores).all()
        assert ask["diversity"] or scores == sorted(scores, reverse=True)
        positions = [self._items[one] for one in ids]
        counts = Counter(kind for position in positions for kind in self._kinds[position])
        assert all(count <= ask["cap"].get("kind", 10**6) for count in counts.values())
        assert all(self._passes(ask["filter"], position) for position in positions)

    def _passes(self, conditions: dict[str, Any], position: int) -> bool:
        kinds, price = self._kinds[position], self._prices[position]
        match conditions.get("kind"):
            case {"not": other} if other in kinds:
                return False
            case str(kind) if kind not in kinds:
                return False
            case [*some] if not kinds & set(some):
                return False
        span = conditions.get("price")
        return span is None or bool(span["min"] <= price <= span["max"])


def _asks(users: list[str], items: list[str]) -> st.SearchStrategy[Any]:
    some_items = st.lists(st.sampled_from([*items, "unknown"]), max_size=20)
    kind = st.sampled_from([*KINDS, "none"])
    kinds = kind | st.lists(kind, max_size=3) | kind.map(lambda one: {"not": one})
    prices = st.tuples(st.floats(-1, 25), st.floats(-1, 25)).map(lambda two: {"min": min(two), "max": max(two)})
    ask = st.fixed_dictionaries(
        {
            "user": st.none() | st.sampled_from([*users, "stranger"]),
            "items": st.lists(st.sampled_from(items), max_size=5),
            "k": st.integers(1, 100),
            "exclude_seen": st.booleans(),
            "allow": st.none() | some_items,
            "deny": some_items,
            "filter": st.fixed_dictionaries({}, optional={"kind": kinds, "price": prices}),
            "cap": st.just({}) | st.integers(1, 9).map(lambda most: {"kind": most}),
            "diversity": st.just(0.0) | st.floats(0, 1),
            "explain": st.integers(0, 2),
        }
    )
    return st.lists(ask, min_size=1, max_size=3)
