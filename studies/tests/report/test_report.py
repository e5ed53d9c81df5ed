# SPDX-License-Identifier: Apache-2.0
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from legcf.core.config import SECTIONS
from legcf.training.registry import METHODS
from legcf_studies.paper.cells import StudyContext, _deciding, digest, plan
from legcf_studies.paper.reproduce import StudyRequest, _remembered
from legcf_studies.paper.store import ResultStore
from legcf_studies.paper.studies import STUDIES
from legcf_studies.report import case_study, plots, report
from legcf_studies.report.figure import new_figure, place_labels
from legcf_studies.report.report import write_report
from legcf_studies.report.tables import all_tables, was_rising
from studies.tests.paper.tiny import pretend_finished
from tests.cli.typed import legcf, refused
from tests.helpers import planted

GOWALLA = StudyContext("gowalla", 29_858, 40_981)


def filled(path: Path, study: str, scores: dict[str, float], seeds: int = 1, states: bool = False) -> ResultStore:
    """A store in which the cells of a study named in `scores` are finished."""
    store = ResultStore(path)
    planned = plan(tuple(STUDIES[study].cells(GOWALLA)), seeds, "data")
    told = _remembered(planned, StudyRequest(study, "gowalla", seeds=seeds), planted(4, 4))
    store.remember_study(study, "gowalla", "quick", {**told, "has_published": True})
    for run in planned.runs:
        if run.cell.name in scores:
            pretend_finished(store, run, scores[run.cell.name], state=_state(run.seed) if states else None)
    return store


def _state(seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    return save(
        {
            "codebook": rng.standard_normal((12, 4)).astype(np.float32),
            "indices": rng.integers(0, 12, (200, 2)).astype(np.int32),
            "weights": rng.random((200, 2)).astype(np.float32),
        }
    )


class TestTables:
    def test_published_ours_and_difference(self, tmp_path: Path) -> None:
        store = filled(tmp_path / "store.sqlite", "table2", {"legcf": 0.4, "qr": 0.2, "ud-64": 0.9}, seeds=2)
        (table,) = all_tables(store)
        lines = {line.cell: line for line in table.lines}
        legcf_line = lines["legcf"]
        assert legcf_line.published["ndcg@20"] == 0.0988
        ours = legcf_line.measured["ndcg@20"]
        assert ours.count == 2
        assert ours.spread is not None
        assert legcf_line.difference("ndcg@20") == pytest.approx(ours.mean / 0.0988 - 1)
        assert legcf_line.best == {"ndcg@10", "recall@10", "ndcg@20", "recall@20"}
        assert not lines["ud-64"].best, "the full table is no rival"
        assert not lines["qr"].level, "far behind, and many users say so"
        assert lines["legcf"].problem is None
        assert "runs not finished" in str(lines["dhe"].problem)

    def test_what_cannot_be_told_from_the_best(self, tmp_path: Path) -> None:
        scores = {"on-metis": 0.4, "off-metis": 0.401, "on-random": 0.2}
        (table,) = all_tables(filled(tmp_path / "store.sqlite", "ablation", scores))
        assert {line.cell for line in table.lines if line.best or line.level} == {"on-metis", "off-metis"}
        assert sum("ndcg@20" in line.level for line in table.lines) == 1

    def test_rows_of_different_losses_are_named(self, tmp_path: Path) -> None:
        store = filled(tmp_path / "store.sqlite", "table2", {"legcf": 0.4, "default": 0.5})
        (table,) = all_tables(store)
        text = report._losses(table)
        assert text.startswith(" Rows differ in their loss too"), text
        assert "bpr for LEGCF (paper, closed form)" in text


class TestStages:
    def test_the_best_of_each_stage_and_the_largest_fall_at_an_update(self, tmp_path: Path) -> None:
        store = filled(tmp_path / "store.sqlite", "ablation", {"refit-metis": 0.4})
        (run,) = store.rows().values()
        scores = [("pretrain", 0.5, False), ("alternate", 0.49, True), ("alternate", 0.6, False)]
        curve = [
            {"stage": stage, "validation": {"ndcg@20": score}, **({"update": {}} if updated else {})}
            for stage, score, updated in scores
        ]
        told = {
            "best_epoch": {"stage": "alternate", "epoch": 2},
            "best_epochs": {"pretrain": {"epoch": 1}, "alternate": {"epoch": 2}},
        }
        changed = replace(run, metrics={**run.metrics, **told}, curve=curve)
        assert report._best_epoch(changed) == "alternate 2 of 2; pretrain 1"
        assert report.largest_fall(changed) == "−2.0%"
        assert report.largest_fall(run) == "", "nothing was updated"

    def test_what_had_not_converged(self, tmp_path: Path) -> None:
        store = filled(tmp_path / "store.sqlite", "ablation", {"refit-metis": 0.4})
        (run,) = store.rows().values()

        def rising(best: int, last: int, **training: object) -> bool:
            told = {"best_epochs": {"alternate": {"epoch": best}}}
            config = {"training": {**run.config["training"], "epochs": 12, **training}}
            ended = replace(run, metrics=told, curve=[{"stage": "alternate", "epoch": last}], config=config)
            return was_rising(ended)

        assert rising(12, 12)
        assert rising(11, 12)
        assert not rising(9, 12)
        assert not rising(9, 11), "validation ended it"
        assert not rising(12, 12, schedule="cosine"), "the rate had gone to zero"


class TestPages:
    def test_report_is_one_page_with_everything(self, tmp_path: Path) -> None:
        scores = {"legcf": 0.4, "qr": 0.2, "ud-64": 0.5, "dhe": 0.1}
        filled(tmp_path / "store.sqlite", "table2", scores)
        answer = legcf("report", tmp_path)
        assert answer.code == 0, answer.err
        page = (tmp_path / "results.html").read_text()
        assert page.count("<svg") == 3
        assert not re.findall(r'(?:src|href)="(?!#)', page), "nothing is loaded from elsewhere"
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids))
        markdown = (tmp_path / "results.md").read_text()
        assert "| LEGCF (paper, closed form) | 210,000 |" in markdown
        assert "4 runs, 16 s one after the other." in markdown
        assert re.search(r"\*\*0\.\d{4}\*\*", markdown)
        for picture in re.findall(r"\]\((plots/[^)]+)\)", markdown):
            assert (tmp_path / picture).read_text().startswith("<?xml")
        assert "legcf train" in page

    def test_same_store_same_files(self, tmp_path: Path) -> None:
        store = filled(tmp_path / "store.sqlite", "ablation", {"on-metis": 0.4, "off-metis": 0.3})
        write_report(store, tmp_path / "one")
        write_report(store, tmp_path / "two")
        for path in (tmp_path / "one").rglob("*.*"):
            assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()

    def test_without_plotting_packages_the_tables_are_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
        store = filled(tmp_path / "store.sqlite", "ablation", {"on-metis": 0.4, "off-metis": 0.3})
        write_report(store, tmp_path)
        assert "pip install 'legcf-studies[report]'" in (tmp_path / "results.md").read_text()

    def test_empty_store_and_no_store(self, tmp_path: Path) -> None:
        ResultStore(tmp_path / "store.sqlite").close()
        assert legcf("report", tmp_path).code == 0
        assert "holds no study yet" in (tmp_path / "results.md").read_text()
        assert "no results store" in refused("report", tmp_path / "nowhere")

    def test_durations(self) -> None:
        assert [report._duration(seconds) for seconds in (5, 600, 7200)] == ["5 s", "10 min", "2.0 h"]


def test_a_run_of_older_settings_survives_every_later_report(tmp_path: Path) -> None:
    """Its settings become today's along with its key: a report that kept the old ones could be taken back once only."""
    write_report(filled(tmp_path / "store.sqlite", "figures", {"at-start": 0.1}), tmp_path)
    path = tmp_path / "results.json"
    content = json.loads(path.read_text())
    (run,) = content["runs"]
    del run["config"]["ranking"]["list_bits"]  # a setting that came later
    version = METHODS["legcf"].layer.version
    run["config_hash"] = digest({"version": version, **{name: _deciding(run["config"][name]) for name in SECTIONS}})
    path.write_text(json.dumps({**content, "studies": []}))
    fresh = ResultStore(tmp_path / "fresh.sqlite")
    assert report.take_back(fresh, tmp_path) == 1
    (row,) = fresh.rows().values()
    assert row.config["ranking"]["list_bits"] == 4
    sections = {name: _deciding(row.config[name]) for name in SECTIONS}
    assert digest({"version": version, **sections}) == row.config_hash


class TestCaseStudies:
    def test_figures_from_the_states(self, tmp_path: Path) -> None:
        scores = {"at-start": 0.1, "pretrained": 0.3, "at-end": 0.4}
        store = filled(tmp_path / "store.sqlite", "figures", scores, states=True)
        (table,) = all_tables(store)
        names = [name for name, _, _ in plots.pictures(table, store)]
        assert names == ["gowalla-quick-figures-embeddings", "gowalla-quick-figures-weights"]

    def test_nothing_until_all_moments_are_there(self, tmp_path: Path) -> None:
        store = filled(tmp_path / "store.sqlite", "figures", {"at-start": 0.1}, states=True)
        (table,) = all_tables(store)
        assert plots.pictures(table, store) == []

    def test_a_report_is_enough_to_draw_them_again(self, tmp_path: Path) -> None:
        """A fresh clone has reports and no states: what was drawn is drawn again, and nothing is run for it."""
        scores = {"at-start": 0.1, "pretrained": 0.3, "at-end": 0.4}
        write_report(filled(tmp_path / "store.sqlite", "figures", scores, states=True), tmp_path / "report")
        fresh = ResultStore(tmp_path / "fresh.sqlite")
        assert report.take_back(fresh, tmp_path / "report") == 3
        planned = _remembered(
            plan(tuple(STUDIES["figures"].cells(GOWALLA)), 1, "data"), StudyRequest("figures", "gowalla"), planted(4, 4)
        )
        fresh.remember_study("figures", "gowalla", "quick", {**planned, "has_published": True})  # the command once more
        write_report(fresh, tmp_path / "again")
        drawn = sorted((tmp_path / "report" / "plots").iterdir())
        assert len(drawn) == 2
        for picture in drawn:
            assert (tmp_path / "again" / "plots" / picture.name).read_bytes() == picture.read_bytes()

    def test_runs_whose_states_are_lost_before_anything_was_drawn_are_run_again(self, tmp_path: Path) -> None:
        store = filled(tmp_path / "store.sqlite", "figures", {"at-start": 0.1, "pretrained": 0.3}, states=True)
        write_report(store, tmp_path / "report")
        assert report.take_back(ResultStore(tmp_path / "fresh.sqlite"), tmp_path / "report") == 0

    def test_another_run_is_not_shown_as_it_was(self, tmp_path: Path) -> None:
        scores = {"at-start": 0.1, "pretrained": 0.3, "at-end": 0.4}
        store = filled(tmp_path / "store.sqlite", "figures", scores, states=True)
        write_report(store, tmp_path)
        (table,) = all_tables(store)
        table.lines[2].runs[0] = replace(table.lines[2].runs[0], key="another")
        assert plots.pictures(table, store) == [], "its state is not known"

    def test_sampled_entities_have_the_anchor(self) -> None:
        state = case_study.AssignmentSnapshot.from_bytes(_state(0))
        anchors, entities = case_study.sample(state, np.random.default_rng(0))
        assert len(anchors) == 5
        assert (state.anchors()[entities] == anchors[:, None]).all()

    def test_rows_and_weights_are_those_of_s(self) -> None:
        state = case_study.AssignmentSnapshot.from_bytes(_state(1))
        dense = np.zeros((200, 12))
        np.add.at(dense, (np.arange(200)[:, None], state.indices), state.weights)
        assert np.allclose(state.rows(np.arange(200)), dense @ state.codebook, atol=1e-5)
        assert np.allclose(state.average_weights(), dense.mean(axis=0))


def test_sizes_of_methods_that_choose_them(tmp_path: Path) -> None:
    store = filled(tmp_path / "store.sqlite", "table2", {"ciess": 0.3, "qr": 0.2})
    (table,) = all_tables(store)
    assert not [name for name, _, _ in plots.pictures(table, store) if name.endswith("-sizes")]
    chosen = next(line for line in table.lines if line.cell == "ciess")
    groups = [{"mean": float(size)} for size in (1, 2, 8)]
    chosen.runs[0].metrics["sizes"] = {"mean": 3.0, "users": groups, "items": groups[::-1]}
    (drawn,) = [svg for name, svg, _ in plots.pictures(table, store) if name.endswith("-sizes")]
    assert drawn.startswith("<?xml")
    assert "CIESS" in drawn


def test_labels_do_not_overlap() -> None:
    figure = new_figure(8, 5)
    axes = figure.subplots()
    rng = np.random.default_rng(0)
    points = [(float(x), float(y), f"method number {k}", "black") for k, (x, y) in enumerate(rng.random((14, 2)) * 0.4)]
    axes.scatter([point[0] for point in points], [point[1] for point in points])
    axes.set(xlim=(0, 1), ylim=(0, 1))
    place_labels(figure, axes, points)
    boxes = [text.get_bbox_patch() or text for text in axes.texts]
    renderer = figure._get_renderer()  # type: ignore[attr-defined]
    from matplotlib.text import Text

    extents = [Text.get_window_extent(box, renderer) for box in boxes]
    assert not any(one.overlaps(other) for k, one in enumerate(extents) for other in extents[:k])


def test_tables_for_papers_and_sheets(tmp_path: Path) -> None:
    filled(tmp_path / "store.sqlite", "table2", {"legcf": 0.4, "qr": 0.2}, seeds=2)
    for name in ("t.tex", "t.csv"):
        answer = legcf("report", tmp_path, "--output", tmp_path / name)
        assert answer.code == 0, answer.err
    latex, sheet = (tmp_path / "t.tex").read_text(), (tmp_path / "t.csv").read_text()
    assert re.search(r"LEGCF \(paper, closed form\) & [0-9,]+ & .*\\textbf\{0\.\d{4}\} \$\\pm\$", latex)
    assert "paper ndcg@20,ours ndcg@20,ours ndcg@20 deviation" in sheet
    assert "must end in .tex or .csv" in refused("report", tmp_path, "--output", tmp_path / "t.doc")
