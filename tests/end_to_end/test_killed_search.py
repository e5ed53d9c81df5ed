# SPDX-License-Identifier: Apache-2.0
"""A search killed with SIGKILL and resumed ends with the sizes of one that was left alone."""

import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from tests import forked
from tests.end_to_end.test_killed import left_alone, lines_of, numbers, wait_for_progress
from tests.helpers import planted, write_folder

COMMON = (
    "--seed", "5", "--epochs", "6", "--dim", "8", "--quiet", "--json", "--set", "training.batch_size=100",
    "--set", "training.negatives=20", "--set", "training.checkpoint_seconds=0", "--set", "training.threads=1",
)  # fmt: skip
SEARCHES = {
    "esapn": ("--set", "method.decide_every=1", "--set", "method.target=0.6", "--set", "method.policy_rate=0.01"),
    "ciess": (
        "--set", "method.target=0.5", "--set", "method.episodes=4", "--set", "method.episode_steps=3",
        "--set", "method.updates=5",
    ),
}  # fmt: skip
LINES = {"esapn": 3, "ciess": 8}  # by then the search is under way


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(SEARCHES))
def test_killed_within_the_search(method: str, tmp_path: Path) -> None:
    data = write_folder(planted(60, 60), tmp_path / "data")

    def command(out: Path, *more: str) -> list[str]:
        return ["train", str(data), "--out", str(out), "--method", method, *COMMON, *SEARCHES[method], *more]

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    left_alone(command(whole), tmp_path / "log")
    for _ in range(20):
        process = forked.command(*command(killed))
        wait_for_progress(process, killed, LINES[method])
        process.kill()
        process.wait(60)
        if not (killed / "metrics.json").exists():
            break
        shutil.rmtree(killed)  # it ended before it could be killed
    assert LINES[method] <= lines_of(killed) < lines_of(whole)
    left_alone(command(killed, "--resume"), tmp_path / "log")
    assert numbers(killed) == numbers(whole)
    assert lines_of(killed) == lines_of(whole)
    sizes = [
        next(v for k, v in load_file(out / "model.safetensors").items() if "widths" in k) for out in (whole, killed)
    ]
    assert (sizes[0] == sizes[1]).all()
