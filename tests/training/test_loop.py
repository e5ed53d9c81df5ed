# SPDX-License-Identifier: Apache-2.0
"""The loop: when it stops, what it keeps, what it writes, and how it goes on after a stop."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.config import RunConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset, Interactions
from legcf.training.loop import Session
from legcf.training.registry import resolve
from legcf.training.sampler import TrainingBatch
from legcf.training.session import _CLOCKS
from legcf.training.stage import Stage
from tests.helpers import planted
from tests.training.sessions import session, stopped

SMALL = {"c": 8, "dim": 8, "t": 2, "start": "random"}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(40, 40)


def configured(method: dict[str, Any] | None = None, **training: Any) -> RunConfig:
    quick = {"epochs": 3, "batch_size": 200, "learning_rate": 1e-2}
    return resolve(preset="paper", overrides={"method": SMALL | (method or {}), "training": quick | training})


def scripted(monkeypatch: pytest.MonkeyPatch, running: Session, scores: list[float]) -> None:
    """Let validation say what a test wants it to say."""
    said = iter([0.0, *scores])  # the first is of the weights before any training
    monitor = running.config.training.monitor
    monkeypatch.setattr(running, "_validation_metrics", lambda: {monitor: next(said)})


def epochs(running: Session) -> list[dict[str, Any]]:
    """What was told of epochs, without the line of the start."""
    return [line for line in running.lines if line["epoch"] > 0]


def weights(running: Session) -> torch.Tensor:
    return torch.tensor(running.model.layer.array("codebook"))


def one_stage(epochs: int) -> list[Stage]:
    return [Stage("train", epochs)]


def test_stops_after_patience_and_restores_the_best(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    keep = lambda line: seen.append(weights(running)) if line["epoch"] else None  # noqa: E731
    running = session(dataset, configured(patience=2), stages=one_stage(50), on_epoch=keep)
    scripted(monkeypatch, running, [0.1, 0.3, 0.2, 0.3, 9.9])
    running.run()
    assert len(epochs(running)) == 4
    assert running.state.best_at == [0, 2]
    assert torch.equal(weights(running), seen[1])


def test_patience_starts_anew_in_each_stage(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    running = session(dataset, configured(patience=1), stages=[Stage("one", 50), Stage("two", 50)])
    scripted(monkeypatch, running, [0.5, 0.4, 0.2, 0.3, 0.1])
    running.run()
    assert [line["stage"] for line in epochs(running)] == ["one", "one", "two", "two", "two"]


@pytest.mark.parametrize(("keep", "at"), [("best-of-all", [0, 1]), ("last-stage", [1, 2]), ("last", [1, 3])])
def test_what_a_run_ends_with(keep: str, at: list[int], dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage's best is reported, whichever of them is kept."""
    seen: dict[tuple[int, int], torch.Tensor] = {}

    def remember(line: dict[str, Any]) -> None:
        seen[running.state.stage, line["epoch"]] = weights(running)

    stages = [Stage("one", 2), Stage("two", 3)]
    running = session(dataset, configured(keep=keep), stages=stages, on_epoch=remember)
    scripted(monkeypatch, running, [0.5, 0.4, 0.2, 0.3, 0.1])
    running.run()
    assert torch.equal(weights(running), seen[at[0], at[1]])
    assert running.state.best_epochs == {"one": [1, 0.5], "two": [2, 0.3]}


def test_a_last_stage_that_nobody_judged_leaves_the_best_there_is(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []
    stages = [Stage("one", 2), Stage("two", 0)]
    keep = lambda line: seen.append(weights(running))  # noqa: E731
    running = session(dataset, configured(keep="last-stage"), stages=stages, on_epoch=keep)
    scripted(monkeypatch, running, [0.5, 0.4])
    running.run()
    assert torch.equal(weights(running), seen[1])
    assert running.state.best_at == [0, 1]


@pytest.mark.parametrize("start", ["best", "last"])
def test_the_next_stage_starts_where_it_should(start: str, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[torch.Tensor] = []

    class Second(Stage):
        def before_epoch(self, session: Session, epoch: int) -> dict[str, Any]:
            begun.append(weights(session))
            return {}

    seen: list[torch.Tensor] = []
    keep = lambda line: seen.append(weights(running)) if line["epoch"] else None  # noqa: E731
    stages = [Stage("one", 2), Second("two", 1)]
    running = session(dataset, configured(continue_from=start), stages=stages, on_epoch=keep)
    scripted(monkeypatch, running, [0.5, 0.4, 0.3])
    running.run()
    assert torch.equal(begun[0], seen[0 if start == "best" else 1])


def test_without_validation_it_runs_to_the_end_and_keeps_the_last(dataset: Dataset) -> None:
    bare = Dataset(
        "bare", "ratio", dataset.users, dataset.items, dataset.train, Interactions.empty(40, 40), dataset.test
    )
    running = session(bare, configured(patience=1, epochs=4))
    running.run()
    assert len(epochs(running)) == 8
    assert not running.best
    assert all("validation" not in line for line in running.lines)


def test_no_epochs_at_all(dataset: Dataset) -> None:
    running = session(dataset, configured(epochs=0), stages=one_stage(0))
    before = weights(running)
    running.run()
    assert torch.equal(weights(running), before)


def test_evaluates_only_when_told(dataset: Dataset) -> None:
    running = session(dataset, configured(evaluate_every=2), stages=one_stage(4))
    running.run()
    assert ["validation" in line for line in epochs(running)] == [False, True, False, True]


def test_fewer_validation_users_do_not_change_what_is_learned(dataset: Dataset) -> None:
    both = [session(dataset, configured(validation_users=count), stages=one_stage(1)) for count in (None, 5)]
    for running in both:
        running.run()
    assert torch.equal(weights(both[0]), weights(both[1]))
    assert epochs(both[0])[0]["validation"] != epochs(both[1])[0]["validation"]


def test_time_runs_out_after_the_epoch_that_passes_it(dataset: Dataset) -> None:
    running = session(dataset, configured(max_minutes=1e-9, epochs=50))
    running.run()
    assert len(epochs(running)) <= 1


def test_the_limit_counts_by_the_clock_that_was_chosen(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine: much time passes, and the processor has hardly begun."""
    passing = itertools.count()
    monkeypatch.setitem(_CLOCKS, "wall", lambda: float(next(passing)))
    monkeypatch.setitem(_CLOCKS, "cpu", lambda: 0.0)
    done = {}
    for clock in ("wall", "cpu"):
        running = session(dataset, configured(max_minutes=1e-3, clock=clock, patience=9), stages=one_stage(4))
        running.run()
        done[clock] = len(epochs(running))
    assert done["cpu"] == 4
    assert done["wall"] <= 1


def test_cosine_falls_from_the_full_rate_to_nearly_nothing(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    running = session(dataset, configured(schedule="cosine", batch_size=25), stages=one_stage(2))
    rates: list[float] = []
    step = running.step
    monkeypatch.setattr(
        running, "step", lambda batch: rates.append(running.optimiser.param_groups[0]["lr"]) or step(batch)
    )
    running.run()
    assert rates[0] == 1e-2
    assert rates == sorted(rates, reverse=True)
    assert rates[len(rates) // 2] == pytest.approx(5e-3, rel=0.3)
    assert rates[-1] < 2e-3


def test_clip_bounds_every_entry_of_the_gradient(dataset: Dataset) -> None:
    running = session(dataset, configured(gradient_clip=1e-6))
    running.step(next(running.sampler.epoch(np.random.default_rng(0))))
    gradients = [parameter.grad for parameter in running.model.parameters()]
    assert all(gradient is not None and gradient.abs().max() <= 1e-6 for gradient in gradients)


@pytest.mark.parametrize("propagation", ["basis", "stepwise"])
@pytest.mark.parametrize(("loss", "kind"), [("bpr", "each"), ("softmax", "shared")])
def test_l2_over_the_rows_of_every_triplet(loss: str, kind: str, propagation: str, dataset: Dataset) -> None:
    penalty = 0.3
    plain, heavy = (session(dataset, configured(loss=loss, l2=l2, propagation=propagation)) for l2 in (0.0, penalty))
    batch = next(plain.sampler.epoch(np.random.default_rng(0)))
    table = plain.model.layer.table().detach().square().sum(dim=1).numpy()[batch.entities]
    if kind == "each":
        triplets = table[batch.users][:, None] + table[batch.positives][:, None] + table[batch.negatives]
        wanted = triplets.mean()
    else:
        wanted = (table[batch.users] + table[batch.positives]).mean() + table[batch.negatives].sum() / batch.num_pairs
    assert heavy.step(batch) - plain.step(batch) == pytest.approx(penalty * wanted, rel=1e-3)


def test_l2_has_one_gradient_whether_rows_travel_or_not(dataset: Dataset) -> None:
    gradients = []
    for propagation in ("basis", "stepwise"):
        running = session(dataset, configured(l2=0.3, propagation=propagation))
        running.step(next(running.sampler.epoch(np.random.default_rng(0))))
        gradients.append(running.model.layer.get_parameter("codebook").grad)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_rows_that_travel_are_not_made_again_for_l2(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    config = resolve("dhe", preset="paper", overrides={"method": {"hashes": 8, "hidden": 8, "dim": 8}})
    running = session(dataset, config)
    made: list[int] = []
    table = running.model.layer.table
    monkeypatch.setattr(running.model.layer, "table", lambda: made.append(1) or table())
    running.step(next(running.sampler.epoch(np.random.default_rng(0))))
    assert len(made) == 1


def test_l2_over_the_final_vectors_of_every_triplet(dataset: Dataset) -> None:
    """A bias stands in the vectors, but is not penalised."""
    method = {"item_bias": True}
    plain, heavy = (session(dataset, configured(method, l2=l2, l2_on="final")) for l2 in (0.0, 0.3))
    batch = next(plain.sampler.epoch(np.random.default_rng(0)))
    norms = np.square(plain.model.entity_vectors()).sum(axis=1)[batch.entities]
    triplets = norms[batch.users][:, None] + norms[batch.positives][:, None] + norms[batch.negatives]
    assert heavy.step(batch) - plain.step(batch) == pytest.approx(0.3 * triplets.mean(), rel=1e-3)


def test_l2_over_the_parameters(dataset: Dataset) -> None:
    plain, heavy = (session(dataset, configured(l2=l2, l2_on="parameters")) for l2 in (0.0, 0.3))
    batch = next(plain.sampler.epoch(np.random.default_rng(0)))
    wanted = weights(plain).square().sum().item()
    assert heavy.step(batch) - plain.step(batch) == pytest.approx(0.3 * wanted, rel=1e-3)


def test_a_loss_that_is_no_number_ends_the_run_with_advice(dataset: Dataset) -> None:
    running = session(dataset, configured())
    with torch.no_grad():
        running.model.layer.get_parameter("codebook").fill_(torch.nan)
    with pytest.raises(UserError, match=r"lower training\.learning_rate"):
        running.run()


@pytest.mark.parametrize("monitor", ["ndcg", "ndcg@0", "taste@20", "ndcg@x"])
def test_monitor_must_be_a_metric(monitor: str, dataset: Dataset) -> None:
    with pytest.raises(UserError, match="ndcg@20"):
        session(dataset, configured(monitor=monitor))


def test_an_unknown_loss(dataset: Dataset) -> None:
    with pytest.raises(UserError, match="bpr"):
        session(dataset, configured(loss="hinge"))


class TestAlternating:
    """Algorithm 1: S is solved every m epochs of the second stage."""

    @pytest.mark.parametrize("solver", ["pinv", "matching-pursuit"])
    @pytest.mark.parametrize(
        ("at", "m", "wanted"), [("end", 3, {3, 6}), ("start", 3, {1, 4, 7}), ("end", 1, set(range(1, 8)))]
    )
    def test_updates_every_m_epochs(self, solver: str, at: str, m: int, wanted: set[int], dataset: Dataset) -> None:
        """After epochs m, 2m, … as Algorithm 1 says; the release updates before the first epoch."""
        config = configured({"update": solver, "update_every": m, "update_at": at}, epochs=7, patience=7)
        running = session(dataset, config)
        running.run()
        updated = [line for line in epochs(running) if "update" in line]
        assert {(line["stage"], line["epoch"]) for line in updated} == {("alternate", epoch) for epoch in wanted}
        told = updated[0]["update"]
        assert told["relative_error"] >= 0
        assert {"buckets_used", "weight_mean", "seconds"} <= set(told)
        state = running.model.layer.state_dict()
        assert (state["weights"] >= 0).all()

    def test_none_ends_after_pretraining(self, dataset: Dataset) -> None:
        running = session(dataset, configured({"update": "none"}))
        running.run()
        assert {line["stage"] for line in epochs(running)} == {"pretrain"}

    def test_a_gate_refuses_what_harms(self, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
        running = session(dataset, configured({"update_gate": True}, epochs=1))
        before = {key: value.clone() for key, value in running.model.layer.state_dict().items()}
        said = iter([0.5, 0.4])
        monkeypatch.setattr(running, "validation_score", lambda: next(said))
        running.run()
        assert epochs(running)[1]["update"]["refused"]
        after = running.model.layer.state_dict()
        assert torch.equal(after["indices"], before["indices"])
        assert torch.equal(after["weights"], before["weights"])


class TestResume:
    def stopped(self, dataset: Dataset, config: RunConfig, folder: Path, after: int) -> None:
        stopped(dataset, config, folder, lambda running: len(epochs(running)) == after)

    @pytest.mark.parametrize("after", [1, 2, 4, 6])
    @pytest.mark.parametrize("method", [{}, {"tanh": True, "item_bias": True, "update_at": "start"}])
    def test_ends_where_an_unbroken_run_ends(
        self, after: int, method: dict[str, Any], dataset: Dataset, tmp_path: Path
    ) -> None:
        config = configured(method, checkpoint_seconds=0, schedule="cosine", epochs=3)
        (tmp_path / "whole").mkdir()
        (tmp_path / "broken").mkdir()
        whole = session(dataset, config, tmp_path / "whole")
        whole.run()
        self.stopped(dataset, config, tmp_path / "broken", after)
        resumed = session(dataset, config, tmp_path / "broken")
        assert resumed.resume() == (after > 1)
        resumed.run()
        for name, tensor in whole.model.state_dict().items():
            assert torch.equal(resumed.model.state_dict()[name], tensor), name
        without_time = [
            [{key: line[key] for key in ("stage", "epoch", "loss", "validation")} for line in running.lines]
            for running in (whole, resumed)
        ]
        assert without_time[0] == without_time[1]
        written = (tmp_path / "broken" / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["loss"] for line in written] == [line["loss"] for line in whole.lines]

    def test_checkpoints_are_not_written_more_often_than_told(self, dataset: Dataset, tmp_path: Path) -> None:
        self.stopped(dataset, configured(checkpoint_seconds=1000), tmp_path, after=2)
        assert not (tmp_path / "checkpoint" / "state.safetensors").exists()

    @pytest.mark.parametrize("damage", ["truncated", "pickle", "empty", "foreign", "other sizes"])
    def test_a_damaged_checkpoint_is_a_sentence(self, damage: str, dataset: Dataset, tmp_path: Path) -> None:
        config = configured(checkpoint_seconds=0, epochs=2)
        self.stopped(dataset, config, tmp_path, after=2)
        path = tmp_path / "checkpoint" / "state.safetensors"
        if damage == "truncated":
            path.write_bytes(path.read_bytes()[:-100])
        elif damage == "pickle":
            torch.save({"state": 1}, path)
        elif damage == "empty":
            path.write_bytes(b"")
        elif damage == "foreign":
            from safetensors.torch import save_file

            save_file({"x": torch.zeros(2)}, path, {"facts": "{}"})
        else:
            config = configured({"c": 9}, checkpoint_seconds=0, epochs=2)
        with pytest.raises(UserError, match="start"):
            session(dataset, config, tmp_path).resume()

    def test_leftovers_of_a_kill_are_swept(self, dataset: Dataset, tmp_path: Path) -> None:
        config = configured(checkpoint_seconds=0, epochs=2)
        self.stopped(dataset, config, tmp_path, after=2)
        leftover = tmp_path / "checkpoint" / ".state.safetensors.abc.part"
        leftover.write_bytes(b"half")
        session(dataset, config, tmp_path).resume()
        assert not leftover.exists()


def test_a_stage_that_holds_pairs_out_learns_from_the_rest_alone(dataset: Dataset) -> None:
    seen: list[tuple[int, int]] = []

    class Search(Stage):
        held_out, eligible_as_best = 0.25, False

        def after_step(self, session: Session, batch: TrainingBatch) -> None:
            users, items = batch.entities[batch.users], batch.entities[batch.positives] - batch.num_users
            seen.extend(zip(users.tolist(), items.tolist(), strict=True))

        def after_epoch(self, session: Session, epoch: int) -> dict[str, Any]:
            assert session.held_out is not None
            apart = set(zip(session.held_out.users().tolist(), session.held_out.items.tolist(), strict=True))
            assert apart.isdisjoint(seen)
            assert len(apart) + len(set(seen)) == session.dataset.train.num_pairs
            return {"held": len(apart)}

    running = session(dataset, configured(), stages=[Search("search", 1), Stage("train", 1)])
    running.run()
    assert running.lines[0]["held"] == round(0.25 * dataset.train.num_pairs)
    assert running.sampler.num_pairs == dataset.train.num_pairs
    assert running.held_out is None
    assert running.state.best_at[0] == 1  # the search does not compete


class Still(Stage):
    """Trains nothing, and counts how often it began."""

    def __init__(self, name: str, epochs: int) -> None:
        super().__init__(name, epochs)
        self.begun = torch.zeros(1)

    def begin(self, session: Session) -> dict[str, Any]:
        self.begun += 1
        return {"begun": True}

    def trains(self, parameter: str) -> bool:
        return False

    def state(self) -> dict[str, torch.Tensor]:
        return {"begun": self.begun}

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        self.begun = state["begun"]


def test_a_stage_trains_only_what_it_names(dataset: Dataset) -> None:
    running = session(dataset, configured(), stages=[Still("still", 2)])
    before = weights(running)
    running.run()
    assert torch.equal(weights(running), before)


def test_a_stage_finds_its_state_after_a_stop(dataset: Dataset, tmp_path: Path) -> None:
    class Stopped(Still):
        def before_epoch(self, session: Session, epoch: int) -> dict[str, Any]:
            if epoch == 2:
                raise KeyboardInterrupt
            return {}

    with pytest.raises(KeyboardInterrupt):
        session(dataset, configured(checkpoint_seconds=0), tmp_path, [Stopped("still", 2)]).run()
    stage = Still("still", 2)
    resumed = session(dataset, configured(checkpoint_seconds=0), tmp_path, [stage])
    assert resumed.resume()
    assert stage.begun == 1
    resumed.run()
    assert stage.begun == 1  # a stage that goes on does not begin again
    assert len(epochs(resumed)) == 2


def test_a_finished_stage_gives_way_and_time_is_shared(dataset: Dataset) -> None:
    class Enough(Stage):
        def finished(self, session: Session) -> bool:
            return session.state.epoch == 1

    class NoTime(Stage):
        time_share = 0.0

    running = session(dataset, configured(max_minutes=60), stages=[Enough("a", 5), NoTime("b", 5), Stage("c", 1)])
    running.run()
    assert [line["stage"] for line in epochs(running)] == ["a", "c"]


def test_a_stage_without_steps_is_ended_by_its_epochs_alone(dataset: Dataset) -> None:
    class Search(Stage):
        iterates_batches, eligible_as_best = False, False

        def after_epoch(self, session: Session, epoch: int) -> dict[str, Any]:
            return {"search": {"best": 1.0}}

        def after_step(self, session: Session, batch: TrainingBatch) -> None:
            raise AssertionError("no steps were asked for")

    running = session(dataset, configured(patience=1), stages=[Search("search", 4), Stage("train", 1)])
    running.run()
    assert [line["stage"] for line in epochs(running)] == ["search"] * 4 + ["train"]
    assert all(line["loss"] is None and "validation" not in line for line in running.lines[:4])


def test_a_stage_that_is_not_validated_goes_on_whatever_validation_says(dataset: Dataset) -> None:
    class Search(Stage):
        validated, eligible_as_best = False, False

    running = session(dataset, configured(patience=1, learning_rate=1e-9), stages=[Search("search", 4)])
    running.run()
    assert len(epochs(running)) == 4
    assert all("validation" not in line for line in running.lines)
