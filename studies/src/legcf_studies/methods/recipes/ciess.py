# SPDX-License-Identifier: Apache-2.0
"""Define CIESS's stages: pretrain the full table, search sizes by TD3 on held-out training pairs, retrain the best.

A trial gives every entity a size, trains the masked table for some steps, and rewards each entity with the quality of
its recommendations less a price for its size. One epoch of the search is one trial.
"""

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from legcf.core.config import TrainingConfig
from legcf.core.random_streams import fixed_generator
from legcf.data.interactions import Interactions
from legcf.evaluation.evaluate import evaluate_per_user
from legcf.ranking.ranking import Ranking
from legcf.training.checkpoint import grouped
from legcf.training.sampler import TrainingBatch
from legcf.training.stage import Stage, TrainingView
from legcf_studies.methods.recipes.asked import seconds_left
from legcf_studies.methods.recipes.td3 import SizeSteps, Td3, Td3Settings, fit_sizes, reward
from legcf_studies.methods.sized.ciess import Ciess, CiessConfig

_LEAST_PEAK = 1e-5
_MEMORY = 100  # trials that the replay holds, as in the original
_PRETRAIN_SHARE = 0.4  # of the time that the search may take, pretraining included


def stages(settings: CiessConfig, training: TrainingConfig) -> list[Stage[Ciess]]:
    search = SearchSizes(settings)
    pretrain = min(settings.pretrain_epochs, training.epochs)
    until = settings.search_share * _PRETRAIN_SHARE
    return [Pretrain("pretrain", pretrain, until, settings.held_out), search, RetrainSized(search, training.epochs)]


class Pretrain(Stage[Ciess]):
    """Train the full table: how well every entity can be served."""

    eligible_as_best, validated = False, False


class SearchSizes(Stage[Ciess]):
    """Try sizes that two agents propose, one for users and one for items."""

    eligible_as_best, validated = False, False

    def __init__(self, settings: CiessConfig) -> None:
        super().__init__("search", settings.episodes * settings.episode_steps, settings.search_share, settings.held_out)
        self.settings = settings
        self._kept: dict[str, torch.Tensor] = {}
        """Of every entity its size, quality and peak quality; the best sizes of all; the values to start from."""
        self._agents: dict[str, Td3] = {}
        self._saved_agents: dict[str, torch.Tensor] = {}
        self._begun, self._steps_done = 0.0, 0

    def begin(self, session: TrainingView[Ciess]) -> dict[str, Any]:
        layer = session.layer
        quality, _ = self._quality(session)
        self._kept = {
            "peak": quality.clamp(min=_LEAST_PEAK),
            "quality": torch.zeros(layer.num_entities),
            "sizes": torch.full((layer.num_entities,), float(layer.width)),
            "best_sizes": torch.full((layer.num_entities,), float(layer.width)),
            "best": torch.tensor([-1.0, float(layer.num_entities * layer.width)]).double(),
        }
        if self.settings.start == "pretrained":
            _turn_to_principal_axes(session)
            learned = dict(session.model.named_parameters())
            self._kept |= {f"start.{name}": value.detach().clone() for name, value in learned.items()}
        self._agents = self._new_agents(session, session.rng)
        return {"search": {"full_quality": float(quality[: layer.num_users].mean())}}

    def before_epoch(self, session: TrainingView[Ciess], epoch: int) -> dict[str, Any]:
        self._begun = time.perf_counter()
        if not self._agents:  # a search that goes on after a resume
            self._agents = self._new_agents(session, fixed_generator())  # all it draws is replaced
            for side, saved in grouped(self._saved_agents.items()).items():
                self._agents[side].load_state(saved)
        settings, kept, layer = self.settings, self._kept, session.layer
        if (epoch - 1) % settings.episode_steps == 0:
            kept["sizes"] = torch.full((layer.num_entities,), float(layer.width))
            kept["quality"] = torch.zeros(layer.num_entities)
        noise = float(session.rng.normal(0, settings.noise))
        kept["before"] = self._states(session)
        states = torch.split(kept["before"], [layer.num_users, layer.num_items])
        choices = zip(self._agents.values(), states, strict=True)
        proposed = torch.cat([agent.choose(own, settings.walk_steps, noise, session.rng) for agent, own in choices])
        if settings.fit == "every":
            proposed = torch.from_numpy(fit_sizes(proposed.long().numpy(), layer.allowed)).float()
        kept["sizes"] = proposed
        layer.set_widths(proposed.int())
        self.start_values(session)
        session.sampler = session.sampler_of(session.pairs, steps=settings.trial_steps)
        self._steps_done = 0
        return {}

    def before_step(self, session: TrainingView[Ciess], batch: TrainingBatch) -> None:
        session.set_learning_rate(self._steps_done / self.settings.trial_steps)
        self._steps_done += 1

    def after_epoch(self, session: TrainingView[Ciess], epoch: int) -> dict[str, Any]:
        settings, kept, layer = self.settings, self._kept, session.layer
        quality, known = self._quality(session)
        kept["quality"] = (2 * quality / kept["peak"] - 1).clamp(-1, 1)
        rewards = reward(quality, kept["sizes"], layer.width, settings.size_penalty)
        before, after = kept.pop("before"), self._states(session)
        for side, agent in self._agents.items():
            members = _members(layer, side)
            recorded = members[known[members].numpy()]
            if settings.replay_rows is not None and len(recorded) > settings.replay_rows:
                recorded = session.rng.choice(recorded, settings.replay_rows, replace=False)
            agent.replay.record(before[recorded], kept["sizes"][recorded], rewards[recorded], after[recorded])
            agent.learn(settings.updates, session.rng)
        evaluated = known[: layer.num_users]
        score = float(quality[: layer.num_users][evaluated].mean()) if evaluated.any() else 0.0
        self._keep_if_best(score, layer)
        best, values = kept["best"].tolist()
        return {
            "search": {
                "quality": score,
                "values": layer.num_params(),
                "reward": float(rewards.mean()),
                "best": best,
                "best_values": int(values),
                "seconds_left": round(seconds_left(session, self, epoch, time.perf_counter() - self._begun)),
            }
        }

    def _keep_if_best(self, score: float, layer: Ciess) -> None:
        """Keep the best quality among sizes that are allowed; until there are any, the smallest sizes."""
        allowed, values = layer.allowed, layer.num_params()
        best, best_values = self._kept["best"].tolist()
        fits, best_fits = values <= allowed, best_values <= allowed and best >= 0
        better = score > best if fits and best_fits else fits if fits != best_fits else values < best_values
        if better:
            self._kept["best"] = torch.tensor([score, float(values)]).double()
            self._kept["best_sizes"] = self._kept["sizes"].clone()

    def best_sizes(self, layer: Ciess) -> NDArray[np.int64]:
        """Return the best sizes of the search, scaled down where no trial was small enough."""
        return fit_sizes(self._kept["best_sizes"].long().numpy(), layer.allowed)

    def start_values(self, session: TrainingView[Ciess]) -> None:
        """Set values and optimiser to what every trial and the retraining start from."""
        model = session.model
        if self.settings.start == "pretrained":
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(self._kept[f"start.{name}"])
        else:
            model.layer.initialise(session.dataset.train, session.rng)
            model.backbone.initialise(session.rng)
        session.new_optimiser()

    def _quality(self, session: TrainingView[Ciess]) -> tuple[torch.Tensor, torch.Tensor]:
        assert session.held_out is not None
        return entity_quality(session.ranking(), session.held_out)

    def _states(self, session: TrainingView[Ciess]) -> torch.Tensor:
        """Return popularity, size and quality, each in [−1, 1]."""
        layer = session.layer
        degrees = (session.pairs.user_degrees, session.pairs.item_degrees)
        popularity = np.concatenate([_popularity(side, self.settings.popularity) for side in degrees])
        sizes = SizeSteps(layer.width).scaled(self._kept["sizes"])
        return torch.stack([torch.from_numpy(popularity), sizes, self._kept["quality"]], dim=1)

    def _new_agents(self, session: TrainingView[Ciess], rng: np.random.Generator) -> dict[str, Td3]:
        layer, settings = session.layer, self.settings
        agent = Td3Settings(hidden=settings.hidden, discount=settings.discount)
        agents = {}
        for side, count in (("users", layer.num_users), ("items", layer.num_items)):
            a_trial = count if settings.replay_rows is None else min(count, settings.replay_rows)
            capacity = min(_MEMORY, max(self.epochs, 1)) * a_trial
            agents[side] = Td3(agent, SizeSteps(layer.width), capacity, rng)
        return agents

    def state(self) -> dict[str, torch.Tensor]:
        agents = {f"agents/{side}/{name}": t for side, own in self._agents.items() for name, t in own.state().items()}
        return agents | self.memory()

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        groups = grouped(state.items())
        self._kept, self._saved_agents = groups["kept"], groups.get("agents", {})

    def memory(self) -> dict[str, torch.Tensor]:
        """Return what the search knows beside its agents."""
        return {f"kept/{name}": tensor for name, tensor in self._kept.items()}


class RetrainSized(Stage[Ciess]):
    """Train the best sizes on all training pairs, with values from the start again."""

    def __init__(self, search: SearchSizes, epochs: int) -> None:
        super().__init__("retrain", epochs)
        self._search = search
        self._has_begun = False

    def begin(self, session: TrainingView[Ciess]) -> dict[str, Any]:
        layer = session.layer
        layer.set_widths(self._search.best_sizes(layer))
        self._search.start_values(session)
        self._has_begun = True
        return {"search": {"values": layer.num_params(), "mean_size": layer.num_params() / layer.num_entities}}

    def state(self) -> dict[str, torch.Tensor]:
        return {} if self._has_begun else self._search.memory()

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        self._search.load_state(state)


def entity_quality(ranking: Ranking, truth: Interactions) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the quality of every entity, and for whom it is known; the mean of its side for the others.

    A user's is the mean of recall and NDCG at 5, 10 and 20; an item's is the mean of the users it was learned from.
    """
    per_user, _, evaluated = evaluate_per_user(ranking, truth, (5, 10, 20), metrics=("recall", "ndcg"))
    of_users, known_users = np.zeros(truth.num_users), np.zeros(truth.num_users, dtype=bool)
    of_users[evaluated], known_users[evaluated] = np.mean(list(per_user.values()), axis=0), True
    relation = ranking.histories.to_scipy().T.tocsr()
    witnesses = relation @ known_users.astype(np.float32)
    of_items = (relation @ of_users) / np.maximum(witnesses, 1)
    sides = [(of_users, known_users), (of_items, witnesses > 0)]
    quality = np.concatenate([np.where(has, side, side[has].mean() if has.any() else 0.0) for side, has in sides])
    known = np.concatenate([has for _, has in sides])
    return torch.from_numpy(quality.astype(np.float32)), torch.from_numpy(known)


def _popularity(degrees: NDArray[np.int64], scale: str) -> NDArray[np.float32]:
    values = np.log1p(degrees) if scale == "log" else degrees.astype(np.float64)
    scaled: NDArray[np.float64] = (values - values.min()) / (float(np.ptp(values)) or 1.0) * 2 - 1
    return scaled.astype(np.float32)


def _members(layer: Ciess, side: str) -> NDArray[np.int64]:
    return np.arange(layer.num_users) if side == "users" else np.arange(layer.num_users, layer.num_entities)


@torch.no_grad()
def _turn_to_principal_axes(session: TrainingView[Ciess]) -> None:
    """Rotate the table so that its first columns say most; scores of a backbone that only propagates stay the same."""
    model = session.model
    if model.backbone.coefficients() is None or any(True for _ in model.backbone.parameters()):
        return
    layer = session.layer
    vectors = torch.from_numpy(model.entity_vectors())
    vectors = vectors.reshape(len(vectors), -1, layer.width).flatten(0, 1).double()
    _, axes = torch.linalg.eigh(vectors.T @ vectors)
    layer.weight.copy_(layer.weight @ axes.flip(1).float())
