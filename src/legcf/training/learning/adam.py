# SPDX-License-Identifier: Apache-2.0
"""Take the steps of Adam (Kingma and Ba, ICLR 2015) by torch's own fused kernel, bit for bit as torch.optim.Adam does.

Torch's class imports its compiler at the first step: 1.2 s and 100 MB on two cores, for something that is not used.
"""

from collections.abc import Sequence
from typing import Any

import torch

_DEFAULTS: dict[str, Any] = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
_MOMENTS = ("exp_avg", "exp_avg_sq")


class Adam:
    """Hold groups of parameters with a rate each, and the moments of their gradients."""

    def __init__(self, groups: Sequence[dict[str, Any]], learning_rate: float, betas: tuple[float, float]) -> None:
        self.param_groups = [{**_DEFAULTS, "betas": betas, "lr": learning_rate, **group} for group in groups]
        self.state: dict[torch.Tensor, dict[str, torch.Tensor]] = {}

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not moved:
                continue
            states = [self._state_of(parameter) for parameter in moved]
            steps = [state["step"] for state in states]
            for count in steps:
                count += 1
            gradients = [parameter.grad for parameter in moved]
            first, second = ([state[name] for state in states] for name in _MOMENTS)
            settings = {name: group[name] for name in ("lr", "weight_decay", "eps")}
            settings["beta1"], settings["beta2"] = group["betas"]
            torch._fused_adam_(moved, gradients, first, second, [], steps, **settings, amsgrad=False, maximize=False)

    def state_dict(self) -> dict[str, Any]:
        """Return moments and groups, parameters by their number."""
        numbers = {parameter: number for number, parameter in enumerate(self._parameters)}
        groups = [{**group, "params": [numbers[one] for one in group["params"]]} for group in self.param_groups]
        return {"state": {numbers[one]: state for one, state in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, content: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned."""
        parameters = self._parameters
        self.state = {parameters[int(number)]: dict(state) for number, state in content["state"].items()}
        for group, saved in zip(self.param_groups, content["param_groups"], strict=True):
            group.update({key: value for key, value in saved.items() if key != "params"})

    @property
    def _parameters(self) -> list[torch.Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _state_of(self, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
        if parameter not in self.state:
            moments = {name: torch.zeros_like(parameter) for name in _MOMENTS}
            self.state[parameter] = {"step": torch.zeros(()), **moments}
        return self.state[parameter]
