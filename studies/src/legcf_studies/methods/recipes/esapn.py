# SPDX-License-Identifier: Apache-2.0
"""Define ESAPN's stages: sizes grow where policies rewarded on held-out pairs enlarge them; then all pairs train.

Every few steps a policy for users and one for items see the popularity and the width of entities. On held-out pairs
they try actions drawn from their probabilities and learn from the reward, the mean of an entity's last losses less the
present one (REINFORCE). In earnest they act greedily, on the entities of the training batch: an entity keeps its width,
unless enlarging is the more probable.
"""

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from legcf.core.config import TrainingConfig
from legcf.core.random_streams import fixed_generator
from legcf.training.checkpoint import grouped, optimiser_tensors, restore_optimiser
from legcf.training.sampler import Sampler, TrainingBatch
from legcf.training.stage import Stage, TrainingView
from legcf_studies.methods.recipes.asked import seconds_left
from legcf_studies.methods.sized.esapn import Esapn, EsapnConfig, normalised

_POPULARITY_WIDTH = 32
_NEGATIVES = 5  # that a held-out pair is compared with


def stages(settings: EsapnConfig, training: TrainingConfig) -> list[Stage[Esapn]]:
    return [Grow(settings, training.epochs), Stage("train", training.epochs)]


class Policy(nn.Module):
    """Map (popularity, level) to the log-probabilities of keeping and of enlarging; at first both are the same."""

    def __init__(self, popularities: int, levels: int, hidden: int, rate: float, rng: np.random.Generator) -> None:
        super().__init__()
        self._levels = levels
        self.popularity = nn.Parameter(torch.from_numpy(rng.standard_normal((popularities, _POPULARITY_WIDTH))).float())
        inputs = _POPULARITY_WIDTH + levels
        bound = inputs**-0.5
        self.first = nn.Parameter(torch.from_numpy(rng.uniform(-bound, bound, (inputs, hidden))).float())
        self.last = nn.Parameter(torch.zeros(hidden, 2))
        self.offset = nn.Parameter(torch.zeros(2))
        self.steps = torch.optim.Adam(self.parameters(), lr=rate)

    def forward(self, popularity: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
        popular, wide = normalised(self.popularity[popularity]), nn.functional.one_hot(levels, self._levels).float()
        known = torch.cat([popular, wide], dim=1)
        return torch.log_softmax(torch.tanh(normalised(known @ self.first)) @ self.last + self.offset, dim=1)

    def learn(self, chances: torch.Tensor, enlarged: torch.Tensor, rewards: torch.Tensor) -> None:
        """Take one step on Σ −log π(a) · r."""
        taken = chances.gather(1, enlarged.long()[:, None])[:, 0]
        self.steps.zero_grad(set_to_none=True)
        (-taken * rewards).sum().backward()  # type: ignore[no-untyped-call]
        self.steps.step()

    def saved(self) -> dict[str, torch.Tensor]:
        adam = {f"adam.{name}": tensor for name, tensor in optimiser_tensors(self.steps).items()}
        return dict(self.state_dict()) | adam

    def load_saved(self, saved: dict[str, torch.Tensor]) -> None:
        adam = {name.removeprefix("adam."): tensor for name, tensor in saved.items() if name.startswith("adam.")}
        self.load_state_dict({name: tensor for name, tensor in saved.items() if not name.startswith("adam.")})
        restore_optimiser(self.steps, adam)


class RecentLosses:
    """Remember the last T losses of every entity."""

    def __init__(self, num_entities: int, recent: int) -> None:
        self.losses = torch.zeros(num_entities, recent)
        self.count = torch.zeros(num_entities, dtype=torch.int64)

    def mean(self, entities: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
        """Return the mean of each entity's losses so far; `otherwise` for one that has none."""
        seen = self.count[entities].clamp(max=self.losses.shape[1])
        means = self.losses[entities].sum(dim=1) / seen.clamp(min=1)
        return torch.where(seen > 0, means, otherwise)

    def add(self, entities: torch.Tensor, losses: torch.Tensor) -> None:
        self.losses[entities, self.count[entities] % self.losses.shape[1]] = losses
        self.count[entities] += 1


class Grow(Stage[Esapn]):
    """Train on the pairs that are not held out, with a decision on sizes every few steps."""

    eligible_as_best, validated = False, False

    def __init__(self, settings: EsapnConfig, most_epochs: int) -> None:
        super().__init__("grow", min(settings.grow_epochs, most_epochs), settings.search_share, settings.held_out)
        self._settings = settings
        self._policies: dict[str, Policy] = {}
        self._recent: RecentLosses | None = None
        self._saved: dict[str, torch.Tensor] = {}
        self._steps, self._enlarged, self._losses, self._begun = 0, 0, [0.0], 0.0
        self._best = torch.full((), torch.inf)

    def before_epoch(self, session: TrainingView[Esapn], epoch: int) -> dict[str, Any]:
        self._begun = time.perf_counter()
        self._steps, self._enlarged, self._losses = 0, 0, []
        if not self._policies:
            self._prepare(session)
        return {}

    def before_step(self, session: TrainingView[Esapn], batch: TrainingBatch) -> None:
        if self._steps % self._settings.decide_every == 0:
            self._learn(session, batch)
            self._grow(session, batch)
        self._steps += 1

    def after_epoch(self, session: TrainingView[Esapn], epoch: int) -> dict[str, Any]:
        layer = session.layer
        loss = float(np.mean(self._losses)) if self._losses else 0.0
        self._best = torch.minimum(self._best, torch.tensor(loss))
        report = {
            "held_out_loss": loss,
            "best": float(self._best),
            "enlarged": self._enlarged,
            "values": layer.num_params(),
            "mean_size": layer.num_params() / layer.num_entities,
            "seconds_left": round(seconds_left(session, self, epoch, time.perf_counter() - self._begun)),
        }
        return {"search": report}

    def _prepare(self, session: TrainingView[Esapn]) -> None:
        """Make policies and memory, new or as they were when a run stopped."""
        settings, layer = self._settings, session.layer
        saved = grouped(self._saved.items())
        rng = fixed_generator() if saved else session.rng  # what it draws is replaced by what was saved
        for side, degrees in (("user", session.pairs.user_degrees), ("item", session.pairs.item_degrees)):
            kinds = int(_popularity(degrees, settings.popularity).max(initial=0)) + 1
            self._policies[side] = Policy(kinds, len(layer.candidates), settings.hidden, settings.policy_rate, rng)
        self._recent = RecentLosses(layer.num_entities, settings.recent_losses)
        if saved:
            for side, policy in self._policies.items():
                policy.load_saved(saved[side])
            self._recent.losses, self._recent.count = saved["recent"]["losses"], saved["recent"]["count"]

    def _learn(self, session: TrainingView[Esapn], batch: TrainingBatch) -> None:
        """Try actions on held-out pairs and reinforce what lowered the loss."""
        assert session.held_out is not None
        assert self._recent is not None
        layer = session.layer
        trial = TrainingConfig(batch_size=self._settings.reward_pairs, negatives=_NEGATIVES)
        held_out = Sampler(session.held_out, trial, "each", seen=session.dataset.train)
        held = next(held_out.epoch(session.rng), None)
        if held is None:
            return
        present = _present(held)
        now = entity_losses(self._vectors(session, held), held)
        chances = self._chances(session, present)
        enlarged = torch.from_numpy(session.rng.random(len(present))) < torch.cat(chances)[:, 1].detach().exp()
        enlarged &= (free := layer.levels[present] < len(layer.candidates) - 1)
        after = now if self._settings.reward_timing == "at once" else self._after_a_step(session, batch, held, enlarged)
        rewards = (self._recent.mean(present, otherwise=after) - after) * free
        if self._settings.reward_timing == "after a step":
            rewards = _centred(rewards, free & (self._recent.count[present] > 0), present < layer.num_users)
        if rewards.any():
            for policy, own, members in zip(self._policies.values(), chances, _by_side(present, layer), strict=True):
                policy.learn(own, enlarged[members], rewards[members])
        self._recent.add(present, now)
        self._losses.append(float(now.mean()))

    def _after_a_step(
        self, session: TrainingView[Esapn], batch: TrainingBatch, held: TrainingBatch, enlarged: torch.Tensor
    ) -> torch.Tensor:
        """Return the losses if the rows, enlarged or not, had taken a step on the training batch."""
        layer, model = session.layer, session.model
        composed = layer.composed().detach().requires_grad_()
        with layer.standing_in(composed):
            vectors = model.encode(torch.from_numpy(batch.entities), batch.fold)
            (gradient,) = torch.autograd.grad(session.loss_of(vectors, batch), composed)
        levels = layer.levels.clone()
        levels[_present(held)] += enlarged.long()
        with torch.no_grad():
            moved = layer.step_from(composed, gradient, levels, session.config.training.learning_rate)
            with layer.standing_in(moved):
                return entity_losses(self._vectors(session, held), held)

    def _grow(self, session: TrainingView[Esapn], batch: TrainingBatch) -> None:
        """Enlarge, for good, what the policies would rather enlarge; the surest first where a budget ends it."""
        layer = session.layer
        present = _present(batch)
        with torch.no_grad():
            chances = torch.cat(self._chances(session, present))
        levels = layer.levels[present]
        preferred = (chances[:, 1] > chances[:, 0]) & (levels < len(layer.candidates) - 1)
        enlarged, certainty = present[preferred], chances[preferred, 1]
        allowed = layer.config.allowed_values(layer.num_entities)
        if allowed is not None:
            ranked = torch.argsort(certainty, descending=True, stable=True)
            sizes = torch.tensor([*layer.candidates, layer.candidates[-1]])
            increments = (sizes[1:] - sizes[:-1])[levels[preferred][ranked]]
            enlarged = enlarged[ranked][layer.num_params() + increments.cumsum(0) <= allowed]
        layer.enlarge(enlarged)
        moments = session.optimiser.state.get(layer.weight, {})
        for name in ("exp_avg", "exp_avg_sq"):
            if name in moments:
                moments[name][enlarged] = 0  # of values that are no more
        self._enlarged += len(enlarged)

    def _chances(self, session: TrainingView[Esapn], entities: torch.Tensor) -> list[torch.Tensor]:
        """Return the log-probabilities that each policy gives its side's entities."""
        layer, scale = session.layer, self._settings.popularity
        degrees = (session.pairs.user_degrees, session.pairs.item_degrees)
        popularity = torch.from_numpy(np.concatenate([_popularity(side, scale) for side in degrees]))
        levels = layer.levels
        return [
            policy(popularity[entities[members]], levels[entities[members]])
            for policy, members in zip(self._policies.values(), _by_side(entities, layer), strict=True)
        ]

    def _vectors(self, session: TrainingView[Esapn], batch: TrainingBatch) -> torch.Tensor:
        with torch.no_grad():
            vectors = session.model.encode(torch.from_numpy(batch.entities), batch.fold)
            return session.loss.scaled(vectors, session.config.training.temperature)

    def state(self) -> dict[str, torch.Tensor]:
        if self._recent is None:
            return {}
        policies = {f"{side}/{name}": t for side, own in self._policies.items() for name, t in own.saved().items()}
        recent = {"recent/losses": self._recent.losses, "recent/count": self._recent.count}
        return policies | recent | {"told/best": self._best}

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        self._saved, self._best = state, state["told/best"]


def entity_losses(vectors: torch.Tensor, batch: TrainingBatch) -> torch.Tensor:
    """Return the mean BPR loss of every user's pairs and of every positive item's, in the order of `_present`."""
    users, positives, negatives = (torch.from_numpy(part) for part in (batch.users, batch.positives, batch.negatives))
    right = (vectors[users] * vectors[positives]).sum(dim=1)
    wrong = torch.einsum("pd,pnd->pn", vectors[users], vectors[negatives])
    losses = nn.functional.softplus(wrong - right[:, None]).mean(dim=1)
    rows = torch.cat([users, positives])
    totals = torch.zeros(len(batch.entities)).index_add_(0, rows, losses.repeat(2))
    counts = torch.bincount(rows, minlength=len(batch.entities))
    return (totals / counts.clamp(min=1))[_present_rows(batch)]


def _present_rows(batch: TrainingBatch) -> torch.Tensor:
    """Return the positions of the users and the positives of a batch, users first and each once."""
    return torch.from_numpy(np.concatenate([np.unique(batch.users), np.unique(batch.positives)]))


def _present(batch: TrainingBatch) -> torch.Tensor:
    return torch.from_numpy(batch.entities)[_present_rows(batch)]


def _by_side(entities: torch.Tensor, layer: Esapn) -> tuple[torch.Tensor, torch.Tensor]:
    return entities < layer.num_users, entities >= layer.num_users


def _popularity(degrees: NDArray[np.int64], scale: str) -> NDArray[np.int64]:
    return (4 * np.log2(1 + degrees)).astype(np.int64) if scale == "log" else degrees.astype(np.int64)


def _centred(rewards: torch.Tensor, has_reward: torch.Tensor, of_user: torch.Tensor) -> torch.Tensor:
    """Subtract the mean of their side from rewards: what all have in common says nothing about an action."""
    centred = torch.zeros_like(rewards)
    for side in (of_user, ~of_user):
        members = side & has_reward
        if members.any():
            centred[members] = rewards[members] - rewards[members].mean()
    return centred
