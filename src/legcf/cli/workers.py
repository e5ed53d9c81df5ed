"""`--workers N`: the same command as N ranks of this machine, by torch's elastic launcher, which restarts lost ones."""

import os
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

import typer

from legcf import threads
from legcf.errors import UserError
from legcf.files import written_whole

_RESTARTS = 5  # of all ranks together: when one is lost, all go on from the last checkpoint
_LOOK_EVERY_SECONDS = 0.2
_REFUSAL = "LEGCF_REFUSAL"  # the file where a rank leaves the sentence of a UserError


def are_wanted(count: int) -> bool:
    """Whether this process is to start ranks, and not one of them."""
    return count > 1 and "TORCHELASTIC_RUN_ID" not in os.environ


def start(count: int) -> None:
    """Run this process's own command as `count` ranks until they are done."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    each = str(max(1, threads.available() // count))
    # Ranks that are started again would otherwise look for each other where the lost ones had been.
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": each}
    if sys.platform == "linux":
        variables["GLOO_SOCKET_IFNAME"] = "lo"
    for name, value in variables.items():
        os.environ.setdefault(name, value)
    with tempfile.TemporaryDirectory(prefix="legcf-workers-") as folder:
        refusal = Path(folder) / "refusal"
        os.environ[_REFUSAL] = str(refusal)
        plan = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id=uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            max_restarts=_RESTARTS,
            monitor_interval=_LOOK_EVERY_SECONDS,
        )
        failed = False
        try:
            elastic_launch(plan, sys.executable)("-m", "legcf", *sys.argv[1:])
        except SignalException as error:
            raise KeyboardInterrupt from error
        except ChildFailedError:
            failed = True
        if refusal.exists():
            raise UserError(refusal.read_text(encoding="utf-8"))
    if failed:
        raise UserError(f"A worker failed {_RESTARTS + 1} times, as told above; --resume goes on from its checkpoint.")


def join() -> None:
    """As one of several ranks: meet the others, and let only the first speak."""
    if _REFUSAL in os.environ and Path(os.environ[_REFUSAL]).exists():
        raise typer.Exit
    from legcf import jit, progress, ranks

    ranks.join()
    if not ranks.is_first():
        jit.silence()
        progress.silence()


def left_for_starter(error: UserError) -> bool:
    """In a rank that was started here, leave the sentence to whoever started it: the rank then ends as if all is well,
    for to start it again would not mend what is wrong."""
    place = os.environ.get(_REFUSAL)
    if place is None or "TORCHELASTIC_RUN_ID" not in os.environ:
        return False
    with written_whole(Path(place)) as temporary:
        temporary.write_text(str(error), encoding="utf-8")
    return True
