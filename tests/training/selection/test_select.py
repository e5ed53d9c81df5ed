# SPDX-License-Identifier: Apache-2.0
"""One file within its size: what is chosen, what is measured and what is served are the same thing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.core.config import RankingConfig, parse_bytes
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset, Interactions
from legcf.evaluation.evaluate import evaluate
from legcf.export.build import build, served_ranking
from legcf.export.options import ExportOptions
from legcf.factorisation.als import AlsSettings
from legcf.ranking import selection_policy
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.score import Score
from legcf.ranking.tables.embedding_table import CodebookTable, QuantisedTable, packed_table_bytes
from legcf.recommender import Recommender
from legcf.scoring.scorer import Request, Scorer
from legcf.training import shared_work
from legcf.training.registry import resolve
from legcf.training.run import build_model, train
from legcf.training.selection import select, table_search
from legcf.training.selection.candidates import Candidate
from legcf.training.selection.select import select_untrained
from legcf.training.selection.table_search import TableSearch, sizes
from legcf.training.session import TrainingOptions
from tests.helpers import planted
from tests.training.sessions import session

QUICK = {"epochs": 1, "batch_size": 400, "threads": 1}
SMALL = {"c": 8, "dim": 16}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(150, 120, cold=3)


@pytest.fixture(scope="module")
def fitted(dataset: Dataset) -> Recommender:
    """Fit by a selection among tables alone: 20,000 bytes are many for 120 items."""
    return Recommender(method_options=SMALL, training=QUICK, ranking={"bytes": 20_000}).fit(dataset)


def test_the_file_keeps_to_its_size_and_needs_nothing_else(fitted: Recommender, tmp_path: Path) -> None:
    served = build(fitted.trained, ExportOptions(users="none"))
    served.save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_size <= 20_000
    assert served.users is None
    assert served.history is None
    assert served.lists is not None
    parts = served.save(tmp_path / "again")
    stored = fitted.metrics["storage_bytes"]
    assert parts["vectors"] + parts["lists"] == pytest.approx(stored, rel=0.1)  # beside them: counts of items


def test_what_is_measured_is_what_is_served(fitted: Recommender, dataset: Dataset, tmp_path: Path) -> None:
    build(fitted.trained, ExportOptions(users="none")).save(tmp_path / "model")
    scorer = Scorer.load(tmp_path / "model")
    served = evaluate(served_ranking(scorer.model, dataset.train), dataset.test, (20,))
    for name in ("recall@20", "ndcg@20"):
        assert served[name] == pytest.approx(fitted.metrics["test"][name], rel=1e-3)
    history = dataset.users.external(np.array([5])), dataset.known.of(5)
    answer = scorer.recommend(Request(items=dataset.items.external(history[1]), k=5))
    wanted = fitted.recommend(history[0], k=5)
    assert {entry.id for entry in answer} == set(wanted["item"])  # equals but for rounding may change places
    assert [entry.score for entry in answer] == pytest.approx(wanted["score"].to_list(), rel=1e-3)


def test_it_comes_back_from_its_folder(fitted: Recommender, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    again = Recommender.load(tmp_path)
    assert isinstance(again.ranking.lists, ItemLists)
    assert isinstance(again.ranking.rows, CodebookTable | QuantisedTable)
    assert again.recommend(k=5)["item"].to_list() == fitted.recommend(k=5)["item"].to_list()


def test_everything_tried_is_reported_and_the_winner_has_its_reason(fitted: Recommender) -> None:
    tried = [line for line in fitted.curve if "start" in line.get("search", {})]
    assert len(tried) > 3
    assert {line["search"]["start"][:3] for line in tried} == {"als", "spe"}  # 150 × 120 are dense
    settled = fitted.config.ranking
    assert not settled.search_representation
    assert not settled.fit_lists
    reason = fitted.metrics["selected"]
    assert reason["ahead_of"].startswith(("als λ=", "spectral c="))
    assert reason["error"] >= 0


def test_few_bytes_an_item_have_codes_tried_as_well(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    per_item = 20_000 / dataset.num_items
    for codes_within, tried in ((0.1 * per_item, set()), (1.1 * per_item, {"legcf"})):
        monkeypatch.setattr(selection_policy, "SMALL", replace(selection_policy.SMALL, codes_within=codes_within))
        config = resolve(overrides={"method": SMALL, "training": QUICK, "ranking": {"bytes": 20_000}})
        trained = train(dataset, config, TrainingOptions(quiet=True))
        assert {line.get("search", {}).get("start") for line in trained.curve} & {"legcf"} == tried


def test_without_validation_a_tenth_is_held_out_and_all_is_trained_on(dataset: Dataset) -> None:
    nothing = Interactions.empty(150, 120)
    unjudged = replace(dataset, validation=nothing)
    fitted = Recommender(method_options=SMALL, training=QUICK, ranking={"bytes": 20_000}).fit(unjudged)
    assert fitted.metrics["chosen_on"]["validation"]["ndcg@20"] > 0
    assert fitted.ranking.histories.num_pairs == dataset.train.num_pairs
    assert fitted.metrics["test"]["ndcg@20"] > 0.3


@pytest.mark.parametrize(("stage", "number"), [("choose", 7), ("pretrain", 1), ("lists", 2)])
def test_a_run_that_was_stopped_ends_the_same(
    stage: str, number: int, dataset: Dataset, tmp_path: Path, codes_are_tried: None
) -> None:
    training = {**QUICK, "epochs": 3, "checkpoint_seconds": 0}
    config = resolve(overrides={"method": SMALL, "training": training, "ranking": {"bytes": 20_000}})
    whole = train(dataset, config, TrainingOptions(tmp_path / "whole", quiet=True))

    def stop(line: dict[str, Any]) -> None:
        if line["stage"] == stage and line["epoch"] == number:
            raise KeyboardInterrupt

    if not any(line["stage"] == stage and line["epoch"] == number for line in whole.curve):
        pytest.skip(f"a table was so far ahead that {stage} did not come about")
    with pytest.raises(KeyboardInterrupt):
        train(dataset, config, TrainingOptions(tmp_path / "stopped", quiet=True, on_epoch=stop))
    resumed = train(dataset, config, TrainingOptions(tmp_path / "stopped", resume=True, quiet=True))
    assert resumed.metrics["test"] == whole.metrics["test"]
    assert resumed.config == whole.config
    told = [[line["stage"], line["epoch"]] for line in resumed.curve]
    assert told == [[line["stage"], line["epoch"]] for line in whole.curve]


def test_a_size_that_is_too_small_is_refused(dataset: Dataset) -> None:
    with pytest.raises(UserError, match="raise bytes"):
        Recommender(method_options=SMALL, training=QUICK, ranking={"bytes": 1000}).fit(dataset)
    with pytest.raises(UserError, match=r"backbone.history"):
        Recommender("full", training={"epochs": 0}, ranking={"bits": 4}).fit(dataset)


@pytest.mark.parametrize(
    ("text", "size"), [("1.66MB", 1_660_000), ("500 kB", 500_000), (1234, 1234), ("1e6", 10**6), ("1MiB", 2**20)]
)
def test_sizes_are_read(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size
    assert RankingConfig(bytes=text, lists=None).bytes == size


@pytest.mark.parametrize("text", ["much", "-1MB", "1.2.3MB", "0", "MB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        RankingConfig(bytes=text)


def test_a_start_that_training_does_not_better_is_kept(monkeypatch: pytest.MonkeyPatch, codes_are_tried: None) -> None:
    monkeypatch.setattr(TableSearch, "best", lambda search, start_score: None)
    dataset = planted(150, 120)  # everyone has validation pairs, so lists are scaled for the same users at the end
    training = {**QUICK, "epochs": 2, "learning_rate": 10.0}
    config = resolve(overrides={"method": SMALL, "training": training, "ranking": {"bytes": 20_000}})
    trained = train(dataset, config, TrainingOptions(quiet=True))
    start = next(line for line in trained.curve if line.get("search", {}).get("start") == "legcf")
    assert {"pretrain", "lists"} <= {line["stage"] for line in trained.curve}
    assert trained.config.training.epochs == 0
    assert trained.metrics["validation"]["ndcg@20"] == pytest.approx(start["validation"]["ndcg@20"])
    again = train(dataset, trained.config, TrainingOptions(quiet=True))
    vectors = [one.model.ranking().items for one in (trained, again)]
    np.testing.assert_allclose(*vectors, rtol=1e-5, atol=1e-6)


def test_what_is_selected_before_training_is_returned_and_nothing_held_is_changed(
    dataset: Dataset, codes_are_tried: None
) -> None:
    config = resolve(overrides={"method": {**SMALL, "t": 2}, "training": QUICK, "ranking": {"bytes": 20_000}})
    running = session(dataset, config)
    builder = replace(running.builder, byte_budget=6_000, fitter=ListFitter(dataset.train))
    build = lambda table: build_model(table, dataset, np.random.default_rng(table.seed))  # noqa: E731
    untrained = select_untrained(running, builder, build, report=False)
    assert untrained.candidate is not None
    assert not untrained.ranking.fit_lists
    assert builder.config is running.builder.config is config.ranking
    assert config.ranking.fit_lists
    assert running.lines == []


def pairs(items: int, count: int) -> Interactions:
    """Return so many pairs of one user each, all with the first item."""
    return Interactions(np.arange(count + 1), np.zeros(count, dtype=np.int32), items)


def test_six_bits_come_after_all_columns() -> None:
    few = pairs(4_000, 1_000)
    assert {bits for _, bits in sizes(400_000, few, 256)} == {2, 3, 4}
    large = list(sizes(1_000_000, few, 128))
    assert {bits for _, bits in large} == {2, 3, 4, 6}
    assert {width for width, bits in large if bits > 4} == {128}


def test_many_items_have_two_bits() -> None:
    many = pairs(40_000, 200_000)
    assert {bits for byte_budget in (4_000_000, 6_000_000) for _, bits in sizes(byte_budget, many, 128)} == {2}


@pytest.mark.parametrize("byte_budget", [100_000, 250_000, 400_000, 1_000_000])
def test_all_columns_are_tried_for_a_larger_file_in_the_bits_of_a_smaller_one(byte_budget: int) -> None:
    smaller, larger = (set(sizes(size, pairs(4_000, 1_000), 128)) for size in (byte_budget, 2 * byte_budget))
    assert larger >= {(width, bits) for width, bits in smaller if width == 128}
    assert all(packed_table_bytes(4_000, *size) <= 0.88 * byte_budget for size in smaller)


def test_one_factorisation_serves_the_codes_and_the_table(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, codes_are_tried: None
) -> None:
    made: list[tuple[int, AlsSettings]] = []
    factorise = shared_work.factorise

    def counted(train: Interactions, width: int, rng: np.random.Generator, settings: AlsSettings, quiet: bool) -> Any:
        made.append((width, settings))
        return factorise(train, width, rng, settings, quiet)

    monkeypatch.setattr(shared_work, "factorise", counted)
    config = resolve(overrides={"method": {"c": 8, "dim": 24}, "training": QUICK, "ranking": {"bytes": 20_000}})
    trained = train(dataset, config, TrainingOptions(quiet=True))
    assert len(made) == len(set(made))
    assert made[0][1].alpha is not None
    assert trained.metrics["validation"]["ndcg@20"] > 0


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all data for a large catalogue."""
    monkeypatch.setattr(selection_policy, "LARGE_CATALOGUE", 0)
    monkeypatch.setattr(selection_policy, "FEW_PAIRS", 0)


@pytest.mark.parametrize(("reach", "searched"), [(0.0, False), (1e9, True)])
def test_a_large_catalogue_searches_tables_beside_trained_codes_if_they_may_be_ahead(
    reach: float, searched: bool, dataset: Dataset, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_search, "_REACH", reach)
    monkeypatch.setattr(table_search, "SURE", -1e9)
    wide = {"c": 8, "dim": 32}  # as wide as tables of 120 items may be
    config = resolve(overrides={"method": wide, "training": QUICK, "ranking": {"bytes": 20_000}})
    trained = train(dataset, config, TrainingOptions(quiet=True))
    looked_at = [line for line in trained.curve if line["stage"] == "choose" and "als" in str(line["search"])]
    assert 1 <= len(looked_at) <= 14, "one table, with several weights of lists"
    stages = [line["stage"] for line in trained.curve]
    assert "pretrain" in stages
    assert ("tables" in stages) == searched
    names = [line["search"]["start"] for line in trained.curve if line["stage"] == "tables"]
    ridges = {name.split("λ=")[1].split()[0] for name in names if "λ=" in name}
    assert ridges <= {"5", "10", "20", "40", "80"}
    if searched:
        assert stages.index("tables") > stages.index("pretrain")
        assert "5" in ridges  # of the codes' own factorisation, then on by doubling


def test_a_run_in_a_large_catalogue_that_was_stopped_among_its_tables_ends_the_same(
    dataset: Dataset, large: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_search, "_REACH", 1e9)
    training = {**QUICK, "checkpoint_seconds": 0}
    config = resolve(overrides={"method": SMALL, "training": training, "ranking": {"bytes": 20_000}})
    whole = train(dataset, config, TrainingOptions(tmp_path / "whole", quiet=True))

    def stop(line: dict[str, Any]) -> None:
        if line["stage"] == "tables" and line["epoch"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(dataset, config, TrainingOptions(tmp_path / "stopped", quiet=True, on_epoch=stop))
    resumed = train(dataset, config, TrainingOptions(tmp_path / "stopped", resume=True, quiet=True))
    assert resumed.metrics["test"] == whole.metrics["test"]
    assert resumed.config == whole.config


@pytest.mark.parametrize(
    ("lead", "spread", "undecided"), [(0.02, 1.0, True), (0.02, 0.001, False), (0.005, 1.0, False)]
)
def test_a_lead_that_is_not_sure_is_undecided(
    lead: float, spread: float, undecided: bool, dataset: Dataset, large: None
) -> None:
    config = resolve(overrides={"method": SMALL, "training": QUICK, "ranking": {"bytes": 20_000}})
    table = resolve("full", "history", "items")
    running = session(dataset, config)
    users = np.ones(100)
    trained = Candidate(config, Score(1.0, users), lambda _: None)
    gaps = spread * np.linspace(-1, 1, 100)
    candidate = Candidate(table, Score(1 + lead, users + lead + gaps), lambda _: None)
    assert select._is_undecided(candidate, trained, running) == undecided
    assert not select._is_undecided(replace(candidate, config=config), trained, running), "codes before training"


def test_everyone_decides_what_some_users_leave_open(
    dataset: Dataset, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_search, "_REACH", 1e9)
    monkeypatch.setattr(select, "_is_undecided", lambda *_: True)
    asked = {"method": SMALL, "training": {**QUICK, "validation_users": 20}, "ranking": {"bytes": 20_000}}
    trained = train(dataset, resolve(overrides=asked), TrainingOptions(quiet=True))
    decided = [line for line in trained.curve if line["stage"] == "decide"]
    assert [line["search"]["start"] for line in decided] == ["full", "legcf"]
    best = max(decided, key=lambda line: np.sqrt(line["validation"]["ndcg@20"] * line["validation"]["recall@20"]))
    everyone = trained.metrics["validation"]["ndcg@20"]
    assert any(line["validation"]["ndcg@20"] == pytest.approx(everyone, rel=1e-4) for line in decided)
    assert best["validation"]["ndcg@20"] > 0
