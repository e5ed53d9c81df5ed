# SPDX-License-Identifier: Apache-2.0
"""Growing widths: the policy's gradient, what growing leaves alone, and that a stop in the middle changes nothing."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from legcf.core.config import RunConfig, TrainingConfig
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset
from legcf.training.loop import Session, TrainingOptions
from legcf.training.registry import resolve
from legcf.training.run import train
from legcf.training.sampler import Sampler
from legcf_studies.methods.recipes import esapn
from legcf_studies.methods.recipes.esapn import Policy, RecentLosses, entity_losses
from legcf_studies.methods.sized.esapn import Esapn, EsapnConfig
from tests.helpers import planted
from tests.training.sessions import session, stopped

SMALL: dict[str, Any] = {
    "dim": 8, "widths": [2, 4, 8], "decide_every": 2, "grow_epochs": 3, "hidden": 16, "held_out": 0.2, "target": None,
    "reward_pairs": 60,
}  # fmt: skip


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return planted(40, 40)


def configured(method: dict[str, Any] | None = None, **training: Any) -> RunConfig:
    quick = {"epochs": 3, "batch_size": 80, "negatives": 20, "checkpoint_seconds": 0}
    return resolve("esapn", overrides={"method": SMALL | (method or {}), "training": quick | training})


def layer_of(running: Session) -> Esapn:
    layer = running.model.layer
    assert isinstance(layer, Esapn)
    return layer


def new_layer(**options: Any) -> Esapn:
    layer = Esapn(EsapnConfig(**{"dim": 8, "widths": [2, 4, 8], **options}), 6, 5)
    layer.initialise(planted(40, 40).train, np.random.default_rng(0))
    return layer


class TestLayer:
    @pytest.mark.parametrize("widths", [[2, 4, 8], [1, 3], [5]])
    def test_all_begin_with_the_smallest_width(self, widths: list[int]) -> None:
        layer = new_layer(widths=widths)
        assert layer.num_params() == 11 * widths[0]
        assert layer.table().shape == (11, 8)

    def test_composed_rows_are_the_chain_link_by_link(self) -> None:
        layer = new_layer()
        layer.enlarge(torch.tensor([1, 7]))
        chain = layer.chains["user"].steps
        wanted = chain[1](chain[0](layer.weight[0, :2]))
        assert torch.allclose(layer.composed()[0], wanted, atol=1e-6)
        assert torch.allclose(layer.composed()[1], chain[1](layer.weight[1, :4]), atol=1e-6)

    def test_enlarging_leaves_every_row_as_it_is(self) -> None:
        layer = new_layer()
        before = layer.table().detach()
        for entities in ([0, 3, 10], [0, 10], [0]):
            layer.enlarge(torch.tensor(entities))
            assert torch.allclose(layer.table(), before, atol=1e-5)
        assert layer.entity_sizes()[[0, 3, 10, 1]].tolist() == [8, 4, 8, 2]
        assert layer.num_params() == 8 + 4 + 8 + 8 * 2

    def test_a_width_grows_one_level_at_a_time_and_not_beyond_the_last(self) -> None:
        layer = new_layer()
        for wanted in (1, 2, 2, 2):
            layer.enlarge(torch.arange(11))
            assert (layer.levels == wanted).all()

    def test_rows_are_normalised_within_their_side(self) -> None:
        table = torch.atanh(new_layer().table())
        for side in (table[:6], table[6:]):
            assert torch.allclose(side.mean(dim=0), torch.zeros(8), atol=1e-4)

    def test_values_behind_a_width_have_no_gradient(self) -> None:
        layer = new_layer()
        layer.enlarge(torch.tensor([4]))
        layer.table().square().sum().backward()
        gradient = layer.weight.grad
        assert gradient is not None
        assert not gradient[0, 2:].any()
        assert gradient[4, 2:4].any()
        assert not gradient[4, 4:].any()

    def test_a_step_of_wider_rows_has_more_directions(self) -> None:
        layer = new_layer()
        composed = layer.composed().detach()
        gradient = torch.from_numpy(np.random.default_rng(1).standard_normal((11, 8))).float()
        for level, width in enumerate([2, 4, 8]):
            moved = layer.step_from(composed, gradient, torch.full((11,), level), 0.1).detach()
            assert torch.linalg.matrix_rank((moved - composed)[:6], atol=1e-4) <= width
            assert ((moved - composed) * gradient).sum() < 0


class TestPolicy:
    def made(self) -> Policy:
        return Policy(5, 3, 16, 1e-2, np.random.default_rng(0))

    def states(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([0, 1, 2, 0, 1, 2])

    def test_it_begins_undecided(self) -> None:
        assert torch.allclose(self.made()(*self.states()).exp(), torch.full((6, 2), 0.5))

    @pytest.mark.parametrize("action", [True, False])
    @pytest.mark.parametrize("pays", [1.0, -1.0])
    def test_what_pays_gets_more_likely(self, action: bool, pays: float) -> None:
        policy = self.made()
        chances = policy(*self.states())
        policy.learn(chances, torch.full((6,), action), torch.full((6,), pays))
        moved = (policy(*self.states()) - chances)[:, int(action)]
        assert moved.mean() * pays > 0  # entities share the statistics of a batch, so a single one may lag behind

    def test_one_entity_alone_is_no_trouble(self) -> None:
        assert self.made()(torch.tensor([2]), torch.tensor([0])).isfinite().all()


class TestRecentLosses:
    def test_the_mean_of_the_last_few(self) -> None:
        recent, which = RecentLosses(3, 2), torch.tensor([1])
        assert recent.mean(which, otherwise=torch.tensor([7.0])) == 7
        for loss, wanted in ((1.0, 1.0), (3.0, 2.0), (5.0, 4.0)):
            recent.add(which, torch.tensor([loss]))
            assert recent.mean(which, otherwise=torch.tensor([7.0])) == wanted


def test_losses_of_users_and_of_positives(dataset: Dataset) -> None:
    sampler = Sampler(dataset.train, TrainingConfig(batch_size=30, negatives=4), "each")
    batch = next(sampler.epoch(np.random.default_rng(0)))
    vectors = torch.from_numpy(np.random.default_rng(1).standard_normal((len(batch.entities), 5))).float()
    present, losses = esapn._present(batch), entity_losses(vectors, batch)
    scores = vectors @ vectors.T
    for entity, loss in zip(present.tolist(), losses.tolist(), strict=True):
        place = batch.entities.tolist().index(entity)
        rows = np.flatnonzero((batch.users == place) | (batch.positives == place))
        each = [
            torch.nn.functional.softplus(
                scores[batch.users[row], other] - scores[batch.users[row], batch.positives[row]]
            )
            for row in rows
            for other in batch.negatives[row]
        ]
        assert loss == pytest.approx(float(torch.stack(each).mean()), rel=1e-4)


class TestGrowing:
    @pytest.mark.parametrize("timing", ["at once", "after a step"])
    def test_sizes_only_grow_and_are_told(self, timing: str, dataset: Dataset) -> None:
        seen: list[torch.Tensor] = []
        running = session(
            dataset,
            configured({"reward_timing": timing, "policy_rate": 1e-2}),
            on_epoch=lambda line: seen.append(layer_of(running).widths.clone()),
        )
        running.run()
        assert all((after >= before).all() for before, after in itertools.pairwise(seen))
        assert set(torch.cat(seen).tolist()) <= {2, 4, 8}
        told = [line["search"] for line in running.lines if line["stage"] == "grow"]
        assert len(told) == 3
        assert told[-1]["values"] == running.model.layer.num_params()
        assert told[-1]["seconds_left"] == 0
        assert told[-1]["best"] == min(line["held_out_loss"] for line in told)

    @pytest.mark.parametrize("timing", ["at once", "after a step"])
    def test_a_constant_loss_leaves_sizes_alone(
        self, timing: str, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            esapn, "entity_losses", lambda vectors, batch: torch.full((len(esapn._present(batch)),), 0.7)
        )
        running = session(dataset, configured({"reward_timing": timing}))
        running.run()
        assert (layer_of(running).widths == 2).all()

    def test_where_growing_pays_all_grow(self, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
        """Loss is what was not enlarged."""
        monkeypatch.setattr(
            esapn.Grow, "_after_a_step", lambda self, session, batch, held, enlarged: 0.7 - 0.5 * enlarged.float()
        )
        config = configured(
            {"reward_timing": "after a step", "policy_rate": 1e-2, "decide_every": 1, "grow_epochs": 6}, epochs=6
        )
        running = session(dataset, config)
        running.run()
        assert layer_of(running).widths.float().mean() > 6

    def test_growth_ends_at_the_budget(self, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            esapn.Grow, "_after_a_step", lambda self, session, batch, held, enlarged: 0.7 - 0.5 * enlarged.float()
        )
        running = session(
            dataset,
            configured({"reward_timing": "after a step", "policy_rate": 1e-2, "decide_every": 1, "budget": 200}),
        )
        running.run()
        assert 190 <= running.model.layer.num_params() <= 200

    def test_validation_is_not_asked_while_sizes_grow(self, dataset: Dataset) -> None:
        running = session(dataset, configured())
        running.run()
        assert all(("validation" in line) == (line["stage"] == "train") for line in running.lines)
        assert running.state.best_at[0] == 1

    @pytest.mark.parametrize("after", [2, 3, 4, 5])
    def test_a_stopped_search_ends_with_the_same_sizes(self, after: int, dataset: Dataset, tmp_path: Path) -> None:
        config = configured({"reward_timing": "after a step", "policy_rate": 1e-2})
        whole = session(dataset, config)
        whole.run()
        stopped(dataset, config, tmp_path, lambda running: len(running.lines) == after)
        resumed = session(dataset, config, tmp_path)
        assert resumed.resume()
        resumed.run()
        for name, tensor in whole.model.state_dict().items():
            assert torch.equal(resumed.model.state_dict()[name], tensor), name
        assert whole.model.layer.num_params() > 160


class TestBadInput:
    @pytest.mark.parametrize(
        ("widths", "said"),
        [
            ([], "at least one"),
            ([4, 2], "and rise"),
            ([2, 2], "and rise"),
            ([0, 4], "at least 1 and"),
            ([2, 16], "dim = 8"),
        ],
    )
    def test_widths(self, widths: list[int], said: str) -> None:
        with pytest.raises(UserError, match=said):
            configured({"widths": widths})

    def test_the_smallest_budget_is_named(self, dataset: Dataset) -> None:
        with pytest.raises(UserError, match="160 are the least"):
            train(dataset, configured({"budget": 159}), TrainingOptions(quiet=True))
