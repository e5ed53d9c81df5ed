from legcf.experiments.cells import Cell, Setting, plan
from legcf.experiments.studies import STUDIES
from legcf.registry import METHODS
from tests.experiments.tiny import runs

GOWALLA = Setting("gowalla", 29_858, 40_981)


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
            setting = Setting("gowalla", 29_858, 40_981, preset)
            for name, study in STUDIES.items():
                cells = tuple(study.cells(setting))
                assert len({cell.name for cell in cells}) == len(cells)
                refused = plan(cells, 1, "data").refused
                known = {cell.name for cell in cells if cell.method in METHODS}
                assert not known & {cell for cell, why in refused.items() if "backbone" not in why}, (name, refused)

    def test_quick_is_capped_and_full_is_not(self) -> None:
        quick = plan(tuple(STUDIES["table2"].cells(GOWALLA)), 1, "data").runs
        full = plan(tuple(STUDIES["table2"].cells(Setting("gowalla", 29_858, 40_981, "full"))), 1, "data").runs
        assert all(run.config.training.max_minutes == 10 for run in quick)
        assert all(run.config.training.max_minutes is None for run in full)

    def test_depth_of_the_paper(self) -> None:
        cells = STUDIES["ablation"].cells(Setting("yelp2020", 71_135, 45_063, "full"))
        assert all(cell.config(0).backbone.layers == 4 for cell in cells)

    def test_size_of_the_table_on_other_backbones(self) -> None:
        assert GOWALLA.width_within_budget == 3

    def test_small_data_gets_a_small_codebook(self) -> None:
        small = Setting("planted", 40, 40)
        assert small.buckets == 20
        assert small.budget == 20 * 128 + 2 * 80

    def test_shared_runs_are_one(self) -> None:
        """LEGCF's row of Table 2, of the ablation, of the backbones and of all four sweeps."""
        planned = [plan(tuple(study.cells(GOWALLA)), 1, "data") for study in STUDIES.values()]
        keys = [run.key for one in planned for run in one.runs if run.cell.name in ("legcf", "on-metis", "t=2", "m=1")]
        assert len(keys) == 4
        assert len(set(keys)) == 1

    def test_command_says_every_setting(self) -> None:
        cell = runs()[0].cell
        command = cell.command("data folder", 3, {"protocol": "legcf"})
        assert command.startswith("legcf train 'data folder' --out RUN --method legcf --preset paper --seed 3")
        assert "--protocol legcf" in command
        assert "--set method.c=8" in command
        assert "--set training.epochs=2" in command
