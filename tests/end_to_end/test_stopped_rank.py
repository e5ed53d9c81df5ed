# SPDX-License-Identifier: Apache-2.0
"""A rank that is stopped counts as lost after a while: the others end with a sentence, and all can start again."""

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.helpers import planted, write_folder


@pytest.mark.slow
def test_ranks_do_not_wait_for_one_that_is_stopped(tmp_path: Path) -> None:
    data = write_folder(planted(60, 60), tmp_path / "data")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    job = {"TORCHELASTIC_RUN_ID": "job", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    variables = {**os.environ, **job, "GLOO_SOCKET_IFNAME": "lo", "LEGCF_RANK_TIMEOUT": "5"}
    settings = ("method.c=8", "method.dim=8", "training.batch_size=20", "training.checkpoint_seconds=0.02")
    words = ["train", data, "--out", tmp_path / "run", "--preset", "paper", "--epochs", "10000"]
    words += [word for setting in settings for word in ("--set", setting)]
    ranks = []
    for rank in range(2):
        with open(tmp_path / f"log{rank}", "wb") as log:
            command = [sys.executable, "-m", "legcf", *map(str, words), "--quiet"]
            ranks.append(subprocess.Popen(command, stdout=log, stderr=log, env={**variables, "RANK": str(rank)}))
    try:
        while not (tmp_path / "run" / "checkpoint" / "state.safetensors").exists():
            assert [rank.poll() for rank in ranks] == [None, None], (tmp_path / "log0").read_text()
            time.sleep(0.02)
        psutil.Process(ranks[1].pid).suspend()
        assert ranks[0].wait(60) == 1
        psutil.Process(ranks[1].pid).resume()
        assert ranks[1].wait(60) == 1
    finally:
        for rank in ranks:
            with suppress(ProcessLookupError):
                rank.kill()
            rank.wait()
    for rank in range(2):
        said = (tmp_path / f"log{rank}").read_text()
        assert "legcf: Another rank has not answered in time" in said
        assert "Traceback" not in said
