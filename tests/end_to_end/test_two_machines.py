# SPDX-License-Identifier: Apache-2.0
"""Two ranks on two "machines": network namespaces with folders of their own and a link between them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import planted, write_folder

SLOW = ("netem", "rate", "100mbit", "delay", "5ms")  # each way, where the kernel can: a round trip takes 10 ms
C = D = 64
EPOCHS, BATCH = 4, 20


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20).stdout


@pytest.fixture
def machines() -> Iterator[tuple[str, str]]:
    """Two namespaces, called like their end of the cable between them: 10.77.0.1 and 10.77.0.2."""
    names = (f"lg{os.getpid()}a", f"lg{os.getpid()}b")
    if shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("needs the commands ip and tc")
    try:
        ip("netns", "add", names[0])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces are not allowed here: {error.stderr.strip()}")
    try:
        ip("netns", "add", names[1])
        ip("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1])
        for number, name in enumerate(names, 1):
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", name, "up")
            slow_down = ["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", name, "root", *SLOW]
            subprocess.run(slow_down, capture_output=True, timeout=20)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20)


def bytes_sent(machine: str) -> int:
    return int(json.loads(ip("-n", machine, "-s", "-j", "link", "show", machine))[0]["stats64"]["tx"]["bytes"])


@pytest.mark.slow
def test_a_run_over_a_cable_sends_what_the_plan_says(machines: tuple[str, str], tmp_path: Path) -> None:
    dataset = planted(60, 60)
    settings = (
        f"method.c={C}", f"method.d={D}", "method.update=none", f"training.batch_size={BATCH}", "training.patience=100",
        "training.threads=1", "method.start=random",
    )  # fmt: skip
    started, before = [], bytes_sent(machines[1])
    for rank, machine in enumerate(machines):
        data = write_folder(dataset, tmp_path / machine / "data")
        job = {"TORCHELASTIC_RUN_ID": "cable", "WORLD_SIZE": "2", "RANK": str(rank), "GLOO_SOCKET_IFNAME": machine}
        command = ["train", str(data), "--out", str(tmp_path / machine / "run"), "--preset", "paper", "--quiet"]
        command += ["--epochs", str(EPOCHS), *(word for setting in settings for word in ("--set", setting))]
        started.append(
            subprocess.Popen(
                ["ip", "netns", "exec", machine, sys.executable, "-m", "legcf", *command],
                env={**os.environ, **job, "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29777"},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for process in started:
        _, told = process.communicate(timeout=240)
        assert process.returncode == 0, told
    assert json.loads((tmp_path / machines[0] / "run" / "metrics.json").read_text())["test"]["ndcg@20"] > 0
    assert not (tmp_path / machines[1] / "run").exists()
    steps = EPOCHS * -(-dataset.train.num_pairs // BATCH)
    planned = steps * 4 * (C * D + 1)  # of two ranks, each sends the gradient of the codebook once
    assert planned < bytes_sent(machines[1]) - before < 1.5 * planned
