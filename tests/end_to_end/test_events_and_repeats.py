# SPDX-License-Identifier: Apache-2.0
"""Kinds of events, dislikes and repeats, from a table to answers: as typed, from Python, from a file."""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from starlette.testclient import TestClient

from legcf import Recommender, Request, Scorer
from legcf.evaluation.evaluate import evaluate
from legcf.server.app import create_app
from legcf.server.settings import Settings
from legcf.server.state.event_log import EventLog
from legcf.server.state.log_entries import new_event
from tests.cli.typed import legcf

WEIGHTS = "view=1,cart=3,buy=10,hide=-1"


def _events(users: int = 60, items: int = 40, rows: int = 1500) -> pl.DataFrame:
    """Return events of four tastes; some are dislikes of an item of the user's own taste."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, users, rows)
    item = np.where(
        rng.random(rows) < 0.8, user % 4 + 4 * rng.integers(0, items // 4, rows), rng.integers(0, items, rows)
    )
    kind = np.array(["view", "cart", "buy", "hide"])[rng.choice(4, rows, p=[0.6, 0.2, 0.15, 0.05])]
    return pl.DataFrame({"user": [f"u{one}" for one in user], "item": [f"i{one}" for one in item], "type": kind})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events")
    _events().write_csv(folder / "e.csv")
    options = ["--event-col", "type", "--event-weights", WEIGHTS, "--preset", "fast", "--quiet"]
    assert legcf("train", folder / "e.csv", *options, "--out", folder / "run").code == 0
    assert legcf("export", folder / "run", folder / "model.legcf", "--users", "history", "--quiet").code == 0
    return folder


def _hidden() -> dict[str, set[str]]:
    hidden = _events().filter(pl.col("type") == "hide")
    return {user: set(some["item"]) for (user,), some in hidden.group_by("user")}


def test_nobody_is_shown_a_dislike(run: Path) -> None:
    scorer, model = Scorer.load(run / "model.legcf"), Recommender.load(run / "run")
    hidden, ids = _hidden(), scorer.model.items
    everything, all_users = len(ids), scorer.recommend_all(len(ids), exclude_seen=False)[0]
    assert len(hidden) > 20
    for user, items in hidden.items():
        asked = scorer.recommend(Request(user, k=everything, exclude_seen=False))
        assert len(asked) == everything - len(items)
        assert items.isdisjoint(one.id for one in asked)
        row = all_users[scorer.model.users.position(user)]  # type: ignore[union-attr]
        assert items.isdisjoint(ids.external(row[row >= 0]))
        assert items.isdisjoint(model.recommend(user, k=everything, exclude_seen=False)["item"])
    user = min(hidden)
    typed = json.loads(legcf("recommend", run / "run", "--user", user, "-k", 40, "--include-seen", "--json").out)
    assert hidden[user].isdisjoint(str(typed).replace("'", '"').split('"'))


def test_updates_and_servers_know_kinds_and_take_back(run: Path, tmp_path: Path) -> None:
    user, disliked = next((user, items) for user, items in sorted(_hidden().items()) if items)
    scorer = Scorer.load(run / "model.legcf")
    best = [one.id for one in scorer.recommend(Request(user, k=3))]
    folder, back = tmp_path / "log", min(disliked)
    log = EventLog(folder, create=True)
    with TestClient(create_app(Settings(str(run / "model.legcf"), access_log=False, events=str(folder)))) as client:

        def shown() -> list[str]:
            asked = {"requests": [{"user": user, "k": 40, "exclude_seen": False}]}
            return [item["id"] for item in client.post("/recommend", json=asked).json()["results"][0]["items"]]

        def send(**event: object) -> int:
            return client.post("/interactions", json={"events": [{"user": user, **event}]}).status_code

        assert (
            send(item=best[0], kind="hide") == send(item=best[1], kind="buy") == send(item=best[2], weight=2.5) == 200
        )
        assert send(item=best[0], kind="look") == send(item=best[0], weight=0) == 409
        assert best[0] not in shown()
        assert back not in shown()
        assert send(item=best[0], kind="buy") == 200  # a dislike wins until it is taken back
        assert best[0] not in shown()
        gone = {"user": user, "item": back, "id": "back-1"}
        assert client.delete("/interactions", params=gone).json()["new"] == 1
        assert client.delete("/interactions", params=gone).json()["repeated"] == 1
        assert back in shown()
        history = client.get(f"/api/history?user={user}").json()["items"]
        assert {best[1], best[2]} <= {item["id"] for item in history}
        assert client.delete("/interactions", params={"user": user, "item": best[2]}).status_code == 200
        history = client.get(f"/api/history?user={user}").json()["items"]
        assert best[2] not in {item["id"] for item in history}
    log.close()
    model = Recommender.load(run / "run").update(events=folder)
    trained, ids = model.trained, model.items
    position = model.users.position(user)
    assert trained.ranking.dislikes is not None
    left = set(ids.external(trained.ranking.dislikes.of(position)))
    assert left == (disliked - {back}) | {best[0]}
    own = dict(zip(ids.external(trained.known.of(position)), _weights(trained.known, position), strict=True))
    assert own[best[1]] == 10.0
    assert best[0] not in own
    assert best[2] not in own
    assert model.metrics["event_weights"] == WEIGHTS
    typed = legcf("update", run / "run", "--events", folder, "--out", tmp_path / "new", "--quiet")
    assert typed.code == 0, typed.err
    assert Recommender.load(tmp_path / "new").trained.ranking.dislikes.digest() == trained.ranking.dislikes.digest()  # type: ignore[union-attr]


def test_times_of_events_are_seconds_and_never_in_the_future(tmp_path: Path) -> None:
    now = 1_700_000_000
    frame = _events().with_columns(time=now - 86_400 * (pl.int_range(pl.len()) % 90))
    frame.write_csv(tmp_path / "e.csv")
    options = ["--event-col", "type", "--event-weights", WEIGHTS, "--half-life", "30d", "--preset", "fast", "--quiet"]
    assert legcf("train", tmp_path / "e.csv", *options, "--out", tmp_path / "run").code == 0
    assert legcf("export", tmp_path / "run", tmp_path / "model.legcf", "--users", "history", "--quiet").code == 0
    folder = tmp_path / "log"
    log = EventLog(folder, create=True)
    with TestClient(
        create_app(Settings(str(tmp_path / "model.legcf"), access_log=False, events=str(folder)))
    ) as client:
        for item, at in (("i0", 7.5), ("i4", now)):  # of 1970, which is no other unit
            event = {"user": "new", "item": item, "kind": "buy", "time": at}
            assert client.post("/interactions", json={"events": [event]}).status_code == 200
        late = {"events": [{"user": "new", "item": "i8", "kind": "buy", "time": 9e10}]}
        shown = {"impressions": [{"user": "new", "items": ["i8"], "time": 9e10}]}
        for path, body in (("/interactions", late), ("/impressions", shown)):
            refused = client.post(path, json=body)
            assert refused.status_code == 409
            assert "in the future" in refused.json()["detail"]
    log.close()
    answer = legcf("update", tmp_path / "run", "--events", folder, "--out", tmp_path / "new", "--quiet")
    assert answer.code == 0, answer.err
    model = Recommender.load(tmp_path / "new")
    position, known = model.users.position("new"), model.trained.known
    own = dict(zip(model.items.external(known.of(position)), _weights(known, position), strict=True))
    assert own["i4"] == pytest.approx(10)
    assert own["i0"] < 1e-6


def test_a_clock_that_was_ahead_for_a_while_lets_nothing_fade(tmp_path: Path) -> None:
    now = time.time()
    frame = _events().with_columns(time=int(now) - 86_400 * (pl.int_range(pl.len()) % 90))
    frame.write_csv(tmp_path / "e.csv")
    options = ["--event-col", "type", "--event-weights", WEIGHTS, "--half-life", "30d", "--preset", "fast", "--quiet"]
    assert legcf("train", tmp_path / "e.csv", *options, "--out", tmp_path / "run").code == 0
    log = EventLog(tmp_path / "log", create=True)
    times = {"i0": 1e10, "i4": now, "i8": 1e300, "i12": -1e300}  # as the server's own clock had it
    log.write([[new_event("new", item, at=at, weight=1.0) for item, at in times.items()]])
    log.close()
    answer = legcf("update", tmp_path / "run", "--events", tmp_path / "log", "--out", tmp_path / "new", "--quiet")
    assert answer.code == 0, answer.err
    model = Recommender.load(tmp_path / "new").trained
    assert model.metrics["weighed_at"] <= time.time()
    assert model.known.weights is not None
    assert np.median(model.known.weights) > 0.1


def _weights(pairs: object, user: int) -> list[float]:
    return pairs.weights[pairs.indptr[user] : pairs.indptr[user + 1]].tolist()  # type: ignore[attr-defined,no-any-return]


def _groceries(users: int = 80, items: int = 60, rows: int = 30) -> pl.DataFrame:
    """Return purchases: half of them are of three staples of a user, the others whatever."""
    rng = np.random.default_rng(1)
    staples = rng.integers(0, items, (users, 3))
    bought = np.where(
        rng.random((users, rows)) < 0.5,
        np.take_along_axis(staples, rng.integers(0, 3, (users, rows)), axis=1),
        rng.integers(0, items, (users, rows)),
    )
    times = np.broadcast_to(np.arange(rows), bought.shape)
    return pl.DataFrame({"user": np.repeat(np.arange(users), rows), "item": bought.ravel(), "time": times.ravel()})


def test_what_is_bought_again_is_recommended_again(tmp_path: Path) -> None:
    _groceries().write_csv(tmp_path / "g.csv")
    typed = legcf(
        "train", tmp_path / "g.csv", "--repeat", "allow", "--protocol", "temporal", "--preset", "fast", "--quiet",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert typed.code == 0, typed.err
    model = Recommender.load(tmp_path / "run")
    ranking, test = model.trained.ranking, model.dataset().test
    assert np.isin(test.keys(), ranking.histories.keys()).mean() > 0.4
    assert model.config.ranking.repeat_weight
    hidden = evaluate(replace(ranking, repeats=False), test, (20,))["ndcg@20"]
    assert model.metrics["test"]["ndcg@20"] > 1.5 * hidden
    assert model.evaluate("test")["ndcg@20"] == pytest.approx(model.metrics["test"]["ndcg@20"])
    report = model.export(tmp_path / "m.legcf", users="history")
    assert report.bytes
    scorer = Scorer.load(tmp_path / "m.legcf")
    counts = _groceries().group_by("user", "item").len()
    most = counts.filter(pl.col("len") == pl.col("len").max().over("user")).select("user", "item")
    first = pl.DataFrame(
        {"user": range(80), "item": [scorer.recommend(Request(user, k=1))[0].id for user in range(80)]}
    )
    assert len(first.join(most, on=["user", "item"])) > 70
    assert first["item"].to_list() == model.recommend(k=1)["item"].to_list()
    bought = set(_groceries().filter(pl.col("user") == 7)["item"])
    assert bought.isdisjoint(one.id for one in scorer.recommend(Request(7, k=60, exclude_seen=True)))
    model.export(tmp_path / "nobody.legcf", users="none")
    same = ["--data", tmp_path / "g.csv", "--repeat", "allow", "--protocol", "temporal", "--json"]
    measured = json.loads(legcf("evaluate", tmp_path / "nobody.legcf", *same).out)
    assert measured["metrics"]["ndcg@20"] == pytest.approx(model.metrics["test"]["ndcg@20"], abs=0.01)
    again = model.update(pl.DataFrame({"user": [7, 7, 999], "item": [1, 2, 3]}))
    assert again.trained.ranking.repeats
    assert again.recommend(7, k=1)["item"][0] in bought
