# SPDX-License-Identifier: Apache-2.0
"""The steps of Adam are torch's own, bit for bit."""

import subprocess
import sys

import torch

from legcf.training.learning.adam import Adam

_BETAS = (0.9, 0.99)


def _weights() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((30, 8), (7,), (3, 2))]


def _groups(weights: list[torch.nn.Parameter]) -> list[dict[str, object]]:
    return [{"params": weights[:1], "weight_decay": 0.01}, {"params": weights[1:]}]


def _steps(optimiser: Adam | torch.optim.Adam, weights: list[torch.nn.Parameter], numbers: range) -> None:
    for number in numbers:
        for group in optimiser.param_groups:
            group["lr"] = 0.01 / (1 + number)
        optimiser.zero_grad()
        weights[0].pow(3).sum().backward()
        if number % 2:  # without a gradient a parameter stays, and its moments too
            weights[1].pow(2).sum().backward()
        optimiser.step()


def test_steps_are_those_of_torch() -> None:
    ours, theirs = _weights(), _weights()
    _steps(Adam(_groups(ours), 0.1, _BETAS), ours, range(9))
    _steps(torch.optim.Adam(_groups(theirs), lr=0.1, betas=_BETAS, fused=True), theirs, range(9))
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)


def test_a_saved_state_goes_on() -> None:
    straight, stopped = _weights(), _weights()
    _steps(Adam(_groups(straight), 0.1, _BETAS), straight, range(6))
    first = Adam(_groups(stopped), 0.1, _BETAS)
    _steps(first, stopped, range(3))
    second = Adam(_groups(stopped), 0.5, _BETAS)
    second.load_state_dict(first.state_dict())
    _steps(second, stopped, range(3, 6))
    for one, other in zip(straight, stopped, strict=True):
        assert torch.equal(one, other)


def test_no_compiler_is_imported() -> None:
    code = (
        "import sys, torch\nfrom legcf.training.learning.adam import Adam\nw = torch.nn.Parameter(torch.ones(3))\n"
        "a = Adam([{'params': [w]}], 0.1, (0.9, 0.99))\nw.sum().backward()\na.step()\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
