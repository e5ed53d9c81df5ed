# SPDX-License-Identifier: Apache-2.0
"""Learn by TD3 for many entities at once: an actor proposes a size for each, twin critics evaluate it.

Fujimoto et al., "Addressing Function Approximation Error in Actor-Critic Methods", ICML 2018, with the random walk over
sizes of Qu et al., "Continuous Input Embedding Size Search For Recommender Systems", SIGIR 2023 (CIESS). States and
actions are tensors with a row per entity. Written here because the agent is small, while libraries want an environment
that is stepped action by action and draw from generators of their own.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from legcf.training.checkpoint import grouped, optimiser_tensors, restore_optimiser

STATE = 3
"""popularity, current size, quality; each in [−1, 1]"""

_LAST_LAYER = 3e-3  # the original draws the actor's last layer from U(±3e-3), so that it starts in the middle


@dataclass(frozen=True)
class Td3Settings:
    """Hold the settings of an agent; the defaults are those of the original."""

    hidden: int = 256
    discount: float = 0.99
    follow: float = 0.005
    actor_every: int = 2
    target_noise: float = 2.0
    target_noise_clip: float = 5.0
    batch_size: int = 4096
    critic_rate: float = 3e-3
    actor_rate: float = 1e-3
    gradient_norm: float = 0.01


class SizeSteps:
    """Scale whole sizes 1 … most to [−1, 1], and walk between them."""

    def __init__(self, most: int, reach: int = 5) -> None:
        self.most = most
        hops = np.concatenate([np.arange(-reach, 0), np.arange(1, reach + 1)])
        ends = np.arange(1, most + 1)[:, None] + hops
        weights = np.where((ends >= 1) & (ends <= most), 1 / np.abs(hops), 0.0)
        total = weights.sum(axis=1, keepdims=True)
        self._hops = np.append(hops, 0)  # the last one for a walk that has nowhere to go
        # What is left of a row without hops (most = 1) falls behind all of them.
        self._bounds = np.cumsum(weights / np.where(total > 0, total, 1), axis=1)
        self._bounds[self._bounds > 1 - 1e-9] = 1.0

    def scaled(self, sizes: torch.Tensor) -> torch.Tensor:
        return (sizes - 1) / max(self.most - 1, 1) * 2 - 1

    def unscaled(self, actions: torch.Tensor) -> torch.Tensor:
        return (actions + 1) / 2 * (self.most - 1) + 1

    def whole(self, sizes: torch.Tensor) -> torch.Tensor:
        return sizes.round().clamp(1, self.most)

    def walk(self, start: torch.Tensor, steps: int, rng: np.random.Generator) -> torch.Tensor:
        """Return entities × (steps + 1) sizes: the start, then hops of at most `reach` with P ∝ 1/distance."""
        size = self.whole(start).numpy().astype(np.int64)
        visited = [size]
        for _ in range(steps):
            drawn = rng.random(len(size))[:, None]
            size = size + self._hops[(self._bounds[size - 1] <= drawn).sum(axis=1)]
            visited.append(size)
        return torch.from_numpy(np.stack(visited, axis=1)).float()


class Replay:
    """Remember the last `capacity` transitions."""

    def __init__(self, capacity: int) -> None:
        self._values = torch.zeros(capacity, 2 * STATE + 2)
        self._count = torch.zeros((), dtype=torch.int64)

    def __len__(self) -> int:
        return min(int(self._count), len(self._values))

    def record(self, state: torch.Tensor, action: torch.Tensor, reward: torch.Tensor, after: torch.Tensor) -> None:
        rows = torch.cat([state, action[:, None], reward[:, None], after], dim=1)[-len(self._values) :]
        slots = (int(self._count) + torch.arange(len(rows))) % len(self._values)
        self._values[slots] = rows
        self._count += len(rows)

    def sample(self, count: int, rng: np.random.Generator) -> tuple[torch.Tensor, ...]:
        rows = self._values[torch.from_numpy(rng.integers(0, len(self), count))]
        return rows[:, :STATE], rows[:, STATE], rows[:, STATE + 1], rows[:, STATE + 2 :]

    def state(self) -> dict[str, torch.Tensor]:
        return {"values": self._values[: len(self)].clone(), "count": self._count.clone()}

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        self._values[: len(state["values"])] = state["values"]
        self._count = state["count"].clone()


class Critic(nn.Module):
    """Map a state and an action to the return that is expected from there on."""

    def __init__(self, hidden: int, inputs: int = STATE + 1) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = self.net(torch.column_stack(inputs))[:, 0]
        return value


class Actor(Critic):
    """Map a state to an action in [−1, 1], by the layers of a critic."""

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden, STATE)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return torch.tanh(super().forward(*inputs))


class Td3:
    """Hold one agent; CIESS has one for users and one for items."""

    def __init__(self, settings: Td3Settings, sizes: SizeSteps, capacity: int, rng: np.random.Generator) -> None:
        self._settings, self._sizes = settings, sizes
        hidden = settings.hidden
        self.nets = nn.ModuleDict({"actor": Actor(hidden), "first": Critic(hidden), "second": Critic(hidden)})
        self.targets = nn.ModuleDict({"actor": Actor(hidden), "first": Critic(hidden), "second": Critic(hidden)})
        for linear in (module for module in self.nets.modules() if isinstance(module, nn.Linear)):
            for parameter in linear.parameters():  # filled as torch does, from the generator that was passed in
                _uniform(parameter, linear.in_features**-0.5, rng)
        for parameter in list(self.nets["actor"].parameters())[-2:]:
            _uniform(parameter, _LAST_LAYER, rng)
        self.follow(1.0, *self.nets)
        self.replay = Replay(capacity)
        critics = [*self.nets["first"].parameters(), *self.nets["second"].parameters()]
        self._critic_steps = torch.optim.Adam(critics, lr=settings.critic_rate)
        self._actor_steps = torch.optim.Adam(self.nets["actor"].parameters(), lr=settings.actor_rate)
        self._updates = torch.zeros((), dtype=torch.int64)

    @torch.no_grad()
    def choose(self, state: torch.Tensor, walk_steps: int, noise: float, rng: np.random.Generator) -> torch.Tensor:
        """Return a whole size for every entity: the best of a walk around the actor's proposal, moved by `noise`."""
        sizes = self._sizes
        candidates = sizes.walk(sizes.unscaled(self.nets["actor"](state)), walk_steps, rng)
        values = [self.nets["first"](state, sizes.scaled(column)) for column in candidates.T]
        best = torch.stack(values, dim=1).argmax(dim=1)
        return sizes.whole(candidates[torch.arange(len(candidates)), best] + noise)

    def learn(self, updates: int, rng: np.random.Generator) -> None:
        for _ in range(updates if len(self.replay) else 0):
            self._update(rng)

    def follow(self, share: float, *names: str) -> None:
        """Move the targets towards the nets; a share of 1 copies them."""
        with torch.no_grad():
            for name in names:
                for target, own in zip(self.targets[name].parameters(), self.nets[name].parameters(), strict=True):
                    target.lerp_(own, share)

    def _update(self, rng: np.random.Generator) -> None:
        settings, nets, targets, sizes = self._settings, self.nets, self.targets, self._sizes
        state, size, reward, after = self.replay.sample(min(settings.batch_size, len(self.replay)), rng)
        bound = settings.target_noise_clip
        noise = float(np.clip(rng.normal(0, settings.target_noise), -bound, bound))
        with torch.no_grad():
            then = sizes.scaled((sizes.unscaled(targets["actor"](after)) + noise).clamp(1, sizes.most))
            value = torch.minimum(targets["first"](after, then), targets["second"](after, then))
            target = reward + settings.discount * value
        action = sizes.scaled(size)
        errors = [nn.functional.mse_loss(nets[name](state, action), target) for name in ("first", "second")]
        self._step(self._critic_steps, errors[0] + errors[1], "first", "second")
        self._updates += 1
        if int(self._updates) % settings.actor_every == 0:
            self._step(self._actor_steps, -nets["first"](state, nets["actor"](state)).mean(), "actor")
            self.follow(settings.follow, "actor")
        self.follow(settings.follow, "first", "second")

    def _step(self, optimiser: torch.optim.Optimizer, loss: torch.Tensor, *names: str) -> None:
        self.nets.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        learned = [parameter for name in names for parameter in self.nets[name].parameters()]
        nn.utils.clip_grad_norm_(learned, self._settings.gradient_norm)
        optimiser.step()

    def state(self) -> dict[str, torch.Tensor]:
        groups = {
            "nets": self.nets.state_dict(),
            "targets": self.targets.state_dict(),
            "critic_steps": optimiser_tensors(self._critic_steps),
            "actor_steps": optimiser_tensors(self._actor_steps),
            "replay": self.replay.state(),
            "agent": {"updates": self._updates.clone()},
        }
        return {f"{group}/{name}": tensor for group, members in groups.items() for name, tensor in members.items()}

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        groups = grouped(state.items())
        self.nets.load_state_dict(groups["nets"])
        self.targets.load_state_dict(groups["targets"])
        restore_optimiser(self._critic_steps, groups["critic_steps"])
        restore_optimiser(self._actor_steps, groups["actor_steps"])
        self.replay.load_state(groups["replay"])
        self._updates = groups["agent"]["updates"].clone()


def reward(quality: torch.Tensor, sizes: torch.Tensor, most: int, weight: float) -> torch.Tensor:
    """Return r = q − λ ((a − 1) / d)²."""
    return quality - weight * ((sizes - 1) / most).square()


def fit_sizes(sizes: NDArray[np.integer], allowed: int) -> NDArray[np.int64]:
    """Scale sizes down until their sum is allowed, none below 1; leave them if it is already."""
    whole = np.asarray(sizes, dtype=np.int64)
    if whole.sum() <= allowed:
        return whole
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        fits = np.maximum((whole * middle).astype(np.int64), 1).sum() <= allowed
        low, high = (middle, high) if fits else (low, middle)
    return np.maximum((whole * low).astype(np.int64), 1)


def _uniform(parameter: torch.Tensor, bound: float, rng: np.random.Generator) -> None:
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(parameter.shape))))
