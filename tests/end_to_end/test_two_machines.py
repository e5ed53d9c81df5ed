# SPDX-License-Identifier: Apache-2.0
"""Two ranks on two "machines": network namespaces with folders of their own and a link between them."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.helpers import planted, write_folder

MEGABITS, DELAY = 100, 5  # milliseconds each way, so that a round trip takes 10
CUT_SECONDS = float(os.environ.get("LEGCF_CUT_SECONDS", "4"))  # for how long there is no link
C = D = 64
EPOCHS, BATCH = 4, 20
PATIENCE = 240
REFUSED = """
import socket, time
started = time.monotonic()
socket.socket().connect_ex(("10.77.0.2", 9))  # nobody listens: the answer takes a round trip
print(time.monotonic() - started)
"""


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20).stdout


@pytest.fixture
def machines() -> Iterator[tuple[str, str]]:
    """Two namespaces, called like their end of the cable between them: 10.77.0.1 and 10.77.0.2."""
    names = (f"lg{os.getpid()}a", f"lg{os.getpid()}b")
    if shutil.which("ip") is None:
        pytest.skip("needs the command ip")
    try:
        ip("netns", "add", names[0])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces are not allowed here: {error.stderr.strip()}")
    cable = None
    try:
        ip("netns", "add", names[1])
        cable = plugged_in(names)
        for number, name in enumerate(names, 1):
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", name, "up")
        yield names
    finally:
        if cable is not None:
            cable.kill()
            cable.communicate()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20)


def plugged_in(names: tuple[str, str]) -> subprocess.Popen[str]:
    """A cable as slow and as long as it should be. Not by `tc netem`: not every kernel has it."""
    words = [sys.executable, "-m", "tests.slow_link", *names, str(MEGABITS), str(DELAY)]
    cable = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if cable.stdout is None or cable.stdout.readline() != "ready\n":
        pytest.skip(f"cannot make a cable here: {cable.communicate()[1].strip().splitlines()[-1:]}")
    return cable


def test_the_cable_takes_its_time(machines: tuple[str, str]) -> None:
    told = subprocess.run(
        ["ip", "netns", "exec", machines[0], sys.executable, "-c", REFUSED], capture_output=True, text=True, timeout=60
    )
    assert told.returncode == 0, told.stderr
    assert 2 * DELAY / 1000 <= float(told.stdout) < 20 * DELAY / 1000


def bytes_sent(machine: str) -> int:
    return int(json.loads(ip("-n", machine, "-s", "-j", "link", "show", machine))[0]["stats64"]["tx"]["bytes"])


def command(data: Path, out: Path, epochs: int) -> list[str]:
    settings = (
        f"method.c={C}", f"method.dim={D}", "method.update=none", f"training.batch_size={BATCH}",
        "training.patience=100", "training.threads=1", "method.start=random", "training.checkpoint_seconds=0.1",
    )  # fmt: skip
    asked = ["train", str(data), "--out", str(out), "--preset", "paper", "--quiet", "--epochs", str(epochs)]
    return [*asked, *(word for setting in settings for word in ("--set", setting))]


@pytest.mark.slow
def test_a_run_over_a_cable_sends_what_the_plan_says(machines: tuple[str, str], tmp_path: Path) -> None:
    dataset = planted(60, 60)
    started, before = [], bytes_sent(machines[1])
    for rank, machine in enumerate(machines):
        data = write_folder(dataset, tmp_path / machine / "data")
        job = {"TORCHELASTIC_RUN_ID": "cable", "WORLD_SIZE": "2", "RANK": str(rank), "GLOO_SOCKET_IFNAME": machine}
        words = command(data, tmp_path / machine / "run", EPOCHS)
        started.append(
            subprocess.Popen(
                ["ip", "netns", "exec", machine, sys.executable, "-m", "legcf", *words],
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


@pytest.mark.slow
def test_a_link_that_is_cut_and_a_side_that_is_killed_do_not_end_the_job(
    machines: tuple[str, str], tmp_path: Path
) -> None:
    """Under torchrun, as docs/scale.md has it; first no packet passes for a while, then the far rank is killed."""
    dataset, epochs = planted(60, 60), 1000
    agents = []
    for machine in machines:
        data = write_folder(dataset, tmp_path / machine / "data")
        launcher = [
            "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "5",
            "--rdzv-backend", "c10d", "--rdzv-endpoint", "10.77.0.1:29400", "--rdzv-id", "cut",
            "--local-addr", f"10.77.0.{1 + len(agents)}", "--rdzv-conf", f"is_host={not agents}",
        ]  # fmt: skip
        words = [*launcher, "-m", "legcf", *command(data, tmp_path / machine / "run", epochs)]
        agents.append(
            subprocess.Popen(
                ["ip", "netns", "exec", machine, sys.executable, "-m", *words],
                env={**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "GLOO_SOCKET_IFNAME": machine},
                stdout=subprocess.DEVNULL,
                stderr=open(tmp_path / f"{machine}.log", "w"),  # noqa: SIM115
            )
        )
    run = tmp_path / machines[0] / "run"
    try:
        wait_for_lines(run, 20, agents)
        ip("-n", machines[1], "link", "set", machines[1], "down")
        time.sleep(1)
        still = lines_of(run)
        time.sleep(CUT_SECONDS)
        assert lines_of(run) == still, "nothing goes on without the other side"
        ip("-n", machines[1], "link", "set", machines[1], "up")
        wait_for_lines(run, still + 20, agents)
        (victim,) = [one for one in psutil.Process(agents[1].pid).children(recursive=True) if "legcf" in one.cmdline()]
        victim.kill()
        wait_for_lines(run, lines_of(run) + 40, agents)  # it goes on from a checkpoint, so some come once more
    finally:
        for agent in agents:
            below = psutil.Process(agent.pid).children(recursive=True) if agent.poll() is None else []
            for process in [*below, agent]:
                process.kill()
            agent.wait(60)


def lines_of(run: Path) -> int:
    path = run / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_for_lines(run: Path, lines: int, agents: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + PATIENCE
    while lines_of(run) < lines:
        ended = [number for number, agent in enumerate(agents) if agent.poll() is not None]
        assert not ended, [path.read_text() for path in run.parents[1].glob("*.log")]
        assert time.monotonic() < deadline, f"{lines_of(run)} lines, not {lines}"
        time.sleep(0.1)
