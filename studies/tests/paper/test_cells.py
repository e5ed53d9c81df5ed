# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace
from importlib import resources

import pytest

from legcf.data.catalogue.registry import find_entry
from legcf.training.registry import METHODS
from legcf_studies.paper import published
from legcf_studies.paper.cells import Cell, Run, StudyContext, digest, hash_today, plan
from legcf_studies.paper.expected import workloads
from legcf_studies.paper.studies import EFFORTS, RIVAL_MINUTES, STUDIES, chosen_studies, searched
from studies.tests.paper.tiny import runs

GOWALLA = StudyContext("gowalla", 29_858, 40_981)


class TestKeys:
    def test_same_settings_under_two_names_are_one_run(self) -> None:
        first = Cell("a", "a", "legcf", ("paper",), {"method": {"t": 2}})
        second = Cell("b", "b", "legcf", ("paper",))
        one, other = plan((first, second), 1, "data").runs
        assert one.key == other.key

    def test_every_decision_is_in_the_key(self) -> None:
        changed = Cell("a", "a", "legcf", ("paper",), {"training": {"epochs": 3}})
        plain = Cell("a", "a", "legcf", ("paper",))
        keys = [run.key for run in plan((changed, plain), 2, "data").runs]
        keys += [run.key for run in plan((plain,), 1, "other data").runs]
        assert len(set(keys)) == 5

    def test_another_default_is_another_run(self) -> None:
        """A row that other defaults made is never taken for one of these: every value counts, set or not."""
        plain = Cell("a", "a", "legcf", ("paper",))
        (run,) = plan((plain,), 1, "data").runs
        method = run.config.method.model_copy(update={"score_scale": 11.0})
        assert Run(plain, 0, run.config.model_copy(update={"method": method}), "data").key != run.key

    def test_the_version_of_a_method_is_in_the_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (run,) = plan((Cell("a", "a", "legcf", ("paper",)),), 1, "data").runs
        before = run.key
        monkeypatch.setattr(METHODS["legcf"].layer, "version", 99)
        assert run.key != before

    def test_what_decides_nothing_is_not_in_the_key(self) -> None:
        cells = (
            Cell("a", "a", "legcf", ("paper",)),
            Cell("b", "b", "legcf", ("paper",), {"training": {"threads": 1, "memory_cap_mb": 99}}),
        )
        one, other = plan(cells, 1, "data").runs
        assert one.key == other.key

    def test_a_clock_counts_where_time_is_limited(self) -> None:
        by_cpu, limited = {"training": {"clock": "cpu"}}, {"training": {"max_minutes": 5}}
        both = {"training": by_cpu["training"] | limited["training"]}
        cells = tuple(Cell(f"{number}", "", "legcf", ("paper",), one) for number, one in enumerate(({}, by_cpu)))
        assert len({run.key for run in plan(cells, 1, "data").runs}) == 1
        cells = tuple(Cell(f"{number}", "", "legcf", ("paper",), one) for number, one in enumerate((limited, both)))
        assert len({run.key for run in plan(cells, 1, "data").runs}) == 2

    def test_a_setting_that_came_later_leaves_runs_what_they_were(self) -> None:
        run = runs()[0]
        config = run.config.to_json()
        assert hash_today(config, run.config_hash) == run.config_hash
        del config["ranking"]["list_bits"]
        sections = {name: {key: value for key, value in config[name].items()
                           if key not in ("threads", "memory_cap_mb", "checkpoint_seconds", "clock")}
                    for name in ("method", "backbone", "training", "ranking")}  # fmt: skip
        version = METHODS["legcf"].layer.version
        assert hash_today(config, digest({"version": version, **sections})) == run.config_hash
        sections["ranking"] |= {"neighbours": 0.0, "fit_neighbours": False}  # keys that are no more
        walked = {**config, "ranking": sections["ranking"]}
        assert hash_today(walked, digest({"version": version, **sections})) == run.config_hash
        older = digest({"version": version - 1, **sections})
        assert hash_today(config, older) == older, "made by another version of the method"
        assert hash_today({**config, "method": {"name": "no-such"}}, "x") == "x"

    def test_a_setting_with_another_name_leaves_runs_what_they_were(self) -> None:
        run = runs()[0]
        config = run.config.to_json()
        config["training"]["adam_memory"] = config["training"].pop("beta2")
        config["method"]["d"] = config["method"].pop("dim")
        idle = ("threads", "memory_cap_mb", "checkpoint_seconds", "clock")
        sections = {
            name: {key: value for key, value in config[name].items() if key not in idle}
            for name in ("method", "backbone", "training", "ranking")
        }
        then = digest({"version": METHODS["legcf"].layer.version, **sections})
        assert then != run.config_hash
        assert hash_today(config, then) == run.config_hash

    def test_what_cannot_run_is_a_sentence(self) -> None:
        planned = plan(
            (
                Cell("a", "a", "no-such", ("paper",)),
                Cell("b", "b", "legcf", ("paper",), backbone="no-such"),
                Cell("c", "c", "legcf", ("no-such",)),
                Cell("d", "d", "legcf", ("paper",), {"method": {"t": 0}}),
            ),
            1,
            "data",
        )
        assert planned.runs == ()
        assert planned.refused["a"] == "method no-such is not available"
        assert planned.refused["b"] == "backbone no-such is not available"
        assert "no preset no-such" in planned.refused["c"]
        assert "method.t = 0" in planned.refused["d"]


class TestStudies:
    def test_every_cell_of_a_known_method_resolves(self) -> None:
        for preset in ("quick", "full"):
            setting = StudyContext("gowalla", 29_858, 40_981, preset)
            for name, study in STUDIES.items():
                cells = tuple(study.cells(setting))
                assert len({cell.name for cell in cells}) == len(cells)
                refused = plan(cells, 1, "data").refused
                known = {cell.name for cell in cells if cell.method in METHODS}
                assert not known & {cell for cell, why in refused.items() if "backbone" not in why}, (name, refused)

    @pytest.mark.parametrize("name", ["amazon-book", "yelp2020"])
    def test_all_can_be_planned_without_the_data(self, name: str) -> None:
        """What is too large to be run here stands ready: every row resolves, at the paper's depth, and has an end."""
        entry = find_entry(name)
        users, items, pairs = entry.sizes
        assert published.is_known(name, users, items)
        for effort in EFFORTS:
            context = StudyContext(name, users, items, effort, num_pairs=pairs * 7 // 10)
            plans = {study: plan(tuple(STUDIES[study].cells(context)), 3, "data") for study in chosen_studies("all")}
            assert not {study: planned.refused for study, planned in plans.items() if planned.refused}
            assert all(load.runs and load.seconds > 0 for load in workloads(plans, {}, pairs))
            rows = {run.cell.name: run for run in plans["table2"].runs}
            assert rows["legcf"].config.backbone.layers == 4
            command = rows["legcf"].cell.command(name, 0, {})
            assert command.startswith(f"legcf train {name} --out RUN --method legcf --preset paper --seed 0")
            assert set(published.numbers(name, "table2", "legcf")) >= {"ndcg@20", "recall@20"}

    def test_bytes_have_every_method_and_files_that_hold_the_items(self) -> None:
        cells = {cell.name: cell for cell in STUDIES["bytes"].cells(GOWALLA)}
        assert {cell.method for cell in cells.values()} == set(METHODS)
        assert {name for name in cells if name.startswith("default-")} == {
            f"default-{size}" for size in (500_000, 1_000_000, 2_000_000, 4_000_000)
        }
        within = {cell.method for cell in cells.values() if cell.overrides.get("method", {}).get("budget") == "legcf"}
        new = {"graphhash", "c2f", "bigear", "cce", "magprune", "lerg"}
        assert new < within
        assert not within & {"full", "als", "chebycf", "ease", "legcf"}

    def test_no_clock_on_the_wall_ends_a_run(self) -> None:
        """Rows must not depend on how busy the machine was: epochs and patience end them, and minutes of a core."""
        for preset in ("quick", "full"):
            for study in STUDIES.values():
                cells = study.cells(StudyContext("gowalla", 29_858, 40_981, preset))
                for run in plan(tuple(cells), 1, "data").runs:
                    training = run.config.training
                    is_limited = preset == "quick" and run.cell.method != "legcf"
                    assert training.max_minutes == (RIVAL_MINUTES if is_limited else None), run.cell.name
                    assert training.clock == ("cpu" if is_limited else "wall")
        asked = STUDIES["table2"].cells(StudyContext("gowalla", 29_858, 40_981, minutes=5))
        assert all(cell.config(0).training.max_minutes == 5 for cell in asked)
        assert all(cell.config(0).training.clock == "cpu" for cell in asked)

    def test_rows_of_the_ablation_learn_for_equally_long(self) -> None:
        """No row is ended by time or patience; without an update one stage has the epochs of two."""
        for run in plan(tuple(STUDIES["ablation"].cells(GOWALLA)), 1, "data").runs:
            training = run.config.training
            assert training.max_minutes is None
            assert training.patience > training.epochs
            stages = METHODS["legcf"].recipe(run.config.method, training)
            assert sum(stage.epochs for stage in stages) == 24, run.cell.name

    def test_batches_go_with_the_data(self) -> None:
        """About a hundred steps per epoch; on large data half as many for rivals, whose steps propagate the table."""
        small = StudyContext("lastfm", 1_880, 4_489, num_pairs=42_135)
        large = StudyContext("gowalla", 29_858, 40_981, num_pairs=810_128)
        for setting, batch, of_rivals in ((small, 512, 512), (large, 8192, 16384)):
            cells = {cell.name: cell.config(0).training for cell in STUDIES["table2"].cells(setting)}
            assert cells["legcf"].batch_size == batch
            assert cells["qr"].batch_size == of_rivals
            assert cells["graph-pursuit"].batch_size == batch

    def test_rates_were_searched_for_every_rival_and_base(self) -> None:
        """On the data nearest in size, raised by the root of how much larger the batch is than they are said for."""
        text = resources.files("legcf_studies.paper").joinpath("rates.json").read_text(encoding="utf-8")
        content = json.loads(text)
        on_small, on_large = content["found"].values()
        small = StudyContext("lastfm", 1_880, 4_489, num_pairs=on_small["pairs"])
        large = StudyContext("gowalla", 29_858, 40_981, num_pairs=810_128)
        rivals = {cell.name for cell in STUDIES["table2"].cells(large) if cell.method != "legcf"}
        assert on_large["rates"].keys() <= rivals
        assert rivals | {"ngcf-legcf", "ngcf-ud", "lr-gccf-legcf", "lr-gccf-ud"} == on_small["rates"].keys()
        for setting, found in ((small, on_small), (large, on_large)):
            cells = searched(setting)
            assert cells.keys() == on_small["rates"].keys()
            for name, rate in found["rates"].items():
                training = cells[name].config(0).training
                expected = rate * (training.batch_size / content["batch_size"]) ** 0.5
                assert training.learning_rate == pytest.approx(expected, rel=0.05), name
                if cells[name].method != "legcf":
                    assert training.l2 == found["l2"].get(name, 0.0), name

    def test_rivals_have_one_loss_and_one_start(self) -> None:
        planned = plan(tuple(STUDIES["table2"].cells(GOWALLA)), 1, "data").runs
        runs = {run.cell.name: run.config for run in planned if run.cell.method != "legcf"}
        assert {config.training.loss for config in runs.values()} == {"bpr"}
        assert {config.training.schedule for config in runs.values()} == {"constant"}
        assert {config.ranking.norm_power for config in runs.values()} == {1.0}
        for name in ("qr-sum", "double-hash", "binary-code"):
            assert runs[name].to_json()["method"]["start"] == "als"
        assert runs["ud-128"].to_json()["method"]["initial"] == "als"
        assert runs["qr"].to_json()["method"]["start"] == "drawn", "a product cannot be fitted"

    def test_depth_of_the_paper(self) -> None:
        cells = STUDIES["ablation"].cells(StudyContext("yelp2020", 71_135, 45_063, "full"))
        assert all(cell.config(0).backbone.layers == 4 for cell in cells)

    def test_size_of_the_table_on_other_backbones(self) -> None:
        assert GOWALLA.width_within_budget == 3

    def test_small_data_gets_a_small_codebook(self) -> None:
        small = StudyContext("planted", 40, 40)
        assert small.buckets == 20
        assert small.budget == 20 * 128 + 2 * 80

    def test_shared_runs_are_one(self) -> None:
        """LEGCF's rows of Table 2, of the ablation, of the backbones and of all four sweeps."""
        planned = [plan(tuple(study.cells(GOWALLA)), 1, "data") for study in STUDIES.values()]
        refitted = ("legcf-refit", "refit-metis", "lightgcn-legcf", "t=2", "m=1", "w=0.5", "c=500")
        for names in (("legcf", "on-metis"), refitted):
            keys = [run.key for one in planned for run in one.runs if run.cell.name in names]
            assert len(keys) >= len(names)
            assert len(set(keys)) == 1

    def test_command_says_every_setting(self) -> None:
        cell = runs()[0].cell
        command = cell.command("data folder", 3, {"protocol": "legcf"})
        assert command.startswith("legcf train 'data folder' --out RUN --method legcf --preset paper --seed 3")
        assert "--protocol legcf" in command
        assert "--set method.c=8" in command
        assert "--set training.epochs=2" in command

    def test_a_setting_for_all_runs_is_one_in_every_row(self) -> None:
        """But for rows that are about it: they keep the value that their name says."""
        asked = replace(GOWALLA, overrides={"training": {"epochs": 3}})
        for name, study in STUDIES.items():
            own = {cell.name for cell in study.cells(asked) if cell.config(0).training.epochs != 3}
            assert own == ({"at-start"} if name == "figures" else set())
        sweep = STUDIES["hyperparameters"].cells(replace(GOWALLA, overrides={"method": {"t": 4}}))
        assert {cell.name for cell in sweep if cell.overrides["method"]["t"] != 4} == {"t=1", "t=2", "t=3", "t=5"}
