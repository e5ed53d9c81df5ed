# SPDX-License-Identifier: Apache-2.0
"""Run the same command as N ranks of this machine (`--workers N`).

This process starts torch's elastic launcher, which starts the ranks and restarts them all when one is lost; should the
launcher itself be lost, it is started again. Nobody outlives whoever started it, so a lost one leaves nothing behind.
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from uuid import uuid4

import typer

from legcf.core import threads
from legcf.core.errors import UserError
from legcf.core.files import written_whole

_RESTARTS = 5  # of all ranks together: when one is lost, all go on from the last checkpoint
_LOOK_EVERY_SECONDS = 0.2
_JOB = "LEGCF_JOB"  # the name of the job, the same for every launcher that it needs
_REFUSAL = "LEGCF_REFUSAL"  # the file where a rank leaves the sentence of a UserError
_LAUNCHER = "LEGCF_LAUNCHER"  # its process
_PARENT_DEATH = 1  # prctl's PR_SET_PDEATHSIG


def start_ranks(count: int) -> bool:
    """Run this process's command as `count` ranks until they are done; False if it is to do the work itself."""
    if count == 1 or "TORCHELASTIC_RUN_ID" in os.environ:
        return False
    each = str(max(1, threads.available() // count))
    # Ranks that are started again would otherwise look for each other where the lost ones had been.
    defaults = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": each}
    if sys.platform == "linux":
        defaults["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory(prefix="legcf-workers-") as folder:
        refusal = Path(folder) / "refusal"
        variables = {**defaults, **os.environ, _JOB: uuid4().hex, _REFUSAL: str(refusal)}
        command = [sys.executable, "-m", "legcf.cli.workers", str(count), *sys.argv[1:]]
        for _ in range(_RESTARTS + 1):
            ended = subprocess.run(command, env=variables).returncode
            if ended >= 0:  # not by a signal
                break
        if refusal.exists():
            raise UserError(refusal.read_text(encoding="utf-8"))
    if ended:
        raise UserError("The workers failed too often (see above); --resume continues from the last checkpoint.")
    return True


def launch(count: int, arguments: list[str]) -> int:
    """Start the ranks, as the launcher, and start them again when one is lost; return an exit code."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    plan = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=os.environ[_JOB],
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=_RESTARTS,
        monitor_interval=_LOOK_EVERY_SECONDS,
    )
    os.environ[_LAUNCHER] = str(os.getpid())
    try:
        elastic_launch(plan, sys.executable)("-m", "legcf", *arguments)
    except ChildFailedError:
        return 1
    except SignalException:
        return 130
    return 0


def join_ranks(meet: bool = True) -> None:
    """Meet the other ranks, if there is need to, and let only the first speak."""
    if _REFUSAL in os.environ:
        _end_with_parent(at_once=True)
        if os.getppid() != int(os.environ[_LAUNCHER]):
            raise typer.Exit(1)  # it is gone already, and another goes on in its stead
        if Path(os.environ[_REFUSAL]).exists():
            raise typer.Exit
    from legcf.core import distributed

    if meet:
        distributed.join()
    if distributed.rank_and_world_size()[0] > 0:
        from legcf.core import jit, progress

        jit.silence()
        progress.silence()
        warnings.simplefilter("ignore")


def left_for_starter(error: UserError) -> bool:
    """Hand the sentence of an error from a rank to the launcher; the rank then exits with 0, so that it is not started
    again only to fail again."""
    path = os.environ.get(_REFUSAL)
    if path is None or "TORCHELASTIC_RUN_ID" not in os.environ:
        return False
    with written_whole(Path(path)) as temporary:
        temporary.write_text(error.typed or str(error), encoding="utf-8")
    return True


def _end_with_parent(at_once: bool) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH, int(signal.SIGKILL if at_once else signal.SIGTERM))


if __name__ == "__main__":
    _end_with_parent(at_once=False)
    sys.exit(launch(int(sys.argv[1]), sys.argv[2:]))
