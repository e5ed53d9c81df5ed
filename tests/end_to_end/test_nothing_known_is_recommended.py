# SPDX-License-Identifier: Apache-2.0
"""Whatever the data: nobody is recommended what they have, whichever way they ask."""

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from legcf import Recommender, Request, Scorer
from legcf.server.app import Settings, create_app
from tests.cli.typed import legcf

PAIRS = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=2, max_size=20).filter(
    lambda pairs: len({item for _, item in pairs}) > 1
)


@settings(max_examples=6)
@given(pairs=PAIRS, final=st.booleans(), users=st.sampled_from(["own", "none --history"]))
def test_nothing_known_is_recommended(
    pairs: set[tuple[int, int]], final: bool, users: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shop")
    known = {(f"u{user}", f"i{item}") for user, item in pairs}
    items = {item for _, item in known}
    with open(folder / "log.csv", "w", newline="") as file:
        csv.writer(file).writerows([("user", "item"), *sorted(known)])
    trained = legcf("train", folder / "log.csv", "--out", folder / "run", "-q", *(["--final"] if final else []))
    assert trained.code == 0, trained.err
    # each answer is all that is left, so that it would show anything that should not be there
    left = {(user, item) for user, _ in known for item in items} - known

    frame = Recommender.load(folder / "run").recommend(k=10)
    assert sorted(zip(frame["user"], frame["item"], strict=True)) == sorted(left)

    assert legcf("recommend", folder / "run", "--output", folder / "all.csv", "-k", 10).code == 0
    with open(folder / "all.csv", newline="") as file:
        assert sorted((row["user"], row["item"]) for row in csv.DictReader(file)) == sorted(left)

    path = folder / "model.legcf"
    stored = () if users == "own" else ("--users", "none", "--history")
    exported = legcf("export", folder / "run", path, "-q", *stored)
    assert exported.code == 0, exported.err
    assert _by_file(path, known) == left
    assert _by_http(path, known) == left


def _by_file(path: Path, known: set[tuple[str, str]]) -> set[tuple[str, str]]:
    scorer = Scorer.load(path)
    users = {user for user, _ in known}
    return {(user, str(entry.id)) for user in users for entry in scorer.recommend(Request(user=user, k=10))}


def _by_http(path: Path, known: set[tuple[str, str]]) -> set[tuple[str, str]]:
    users = sorted({user for user, _ in known})
    with TestClient(create_app(Settings(str(path), access_log=False))) as client:
        body = {"requests": [{"user": user, "k": 10} for user in users]}
        results = client.post("/recommend", json=body).json()["results"]
    return {(user, entry["id"]) for user, result in zip(users, results, strict=True) for entry in result["items"]}
