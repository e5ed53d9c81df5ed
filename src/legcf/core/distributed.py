# SPDX-License-Identifier: Apache-2.0
"""Train one model with several processes (ranks): divide rows, exchange results, decide who writes.

Every rank runs the same program. Expensive loops are split: a rank computes its own rows (`row_partition`) and receives
those of the others (`all_gather_rows`), or the sum over all (`all_reduce_sum`). Everything else is computed by all of
them alike, and decisions follow from numbers that all have. One rank, the first, has the run's folder and prints. A
process alone is one rank, and nothing here does anything.

Every rank must reach the same collectives in the same order: a rank that leaves one out, or that branches on a number
which only it has, makes the others wait until the timeout. Collectives are marked as such in their docstrings.
"""

import copy
import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.core.files import written_whole

if TYPE_CHECKING:
    import torch

_TIMEOUT = "LEGCF_RANK_TIMEOUT"
"""The variable with the seconds after which a rank that does not answer counts as lost. One that has died is noticed at
once, one that hangs only by this."""
_TIMEOUT_SECONDS = 6 * 3600.0  # a rank may work alone for long
_UNSHARED_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
JOB = "job"  # the file in a run's folder that says which job of ranks has begun it


@dataclass
class _Group:
    """Hold the only state of this module: this process's rank, and how many ranks there are."""

    rank: int = 0
    size: int = 1


_group = _Group()
Array = TypeVar("Array", bound=NDArray[Any])


def join() -> None:
    """Join the other ranks, if the process was started as one of several (by torchrun, which sets the environment)."""
    if rank_and_world_size()[1] == 1:
        return
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=_timeout())
    _group.size, _group.rank = dist.get_world_size(), dist.get_rank()
    if (
        _group.rank == 0
        and os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"
        and _UNSHARED_STORE not in os.environ
    ):
        print(
            f"Set {_UNSHARED_STORE}=1 for torchrun: without it, a job does not recover from the loss of a rank.",
            file=sys.stderr,
        )


def _timeout() -> timedelta:
    text = os.environ.get(_TIMEOUT)
    try:
        seconds = _TIMEOUT_SECONDS if text is None else float(text)
        if seconds <= 0:
            raise ValueError
        return timedelta(seconds=seconds)
    except (ValueError, OverflowError) as error:
        raise UserError(f"{_TIMEOUT}={text} is not a number of seconds above 0.") from error


def rank_and_world_size() -> tuple[int, int]:
    """Return as which rank of how many this process was started: for work that needs nothing of the others."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 0, 1
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def leave() -> None:
    """Leave the group once all is done."""
    if _group.size > 1:
        import torch.distributed as dist

        dist.destroy_process_group()
        _group.size, _group.rank = 1, 0


def world_size() -> int:
    """Return how many ranks there are."""
    return _group.size


def rank() -> int:
    """Return the number of this rank, from 0."""
    return _group.rank


def is_first() -> bool:
    """Return whether this is the rank that writes and prints."""
    return _group.rank == 0


def goes_on(folder: Path, may_begin: bool) -> bool:
    """Return whether this job began the run in the folder before it lost a rank; else, if it may, mark it as its own.

    A collective.
    """

    def signed() -> bool:
        name, mark = os.environ["TORCHELASTIC_RUN_ID"], folder / JOB
        if mark.is_file() and mark.read_text(encoding="utf-8") == name:
            return True
        if may_begin:
            with written_whole(mark) as temporary:
                temporary.write_text(name, encoding="utf-8")
        return False

    return _group.size > 1 and bool(run_on_first_and_broadcast(signed))


# Dividing rows --------------------------------------------------------------------------------------------------------


def row_partition(offsets: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return bounds: rank r computes the rows from bounds[r] to bounds[r + 1].

    `offsets` (as of a CSR matrix) say how much work rows are.
    """
    shares = np.arange(1, _group.size) * (int(offsets[-1]) / _group.size)
    inner = np.searchsorted(offsets, shares, side="left")
    return np.concatenate([[0], inner, [len(offsets) - 1]]).astype(np.int64)


def even_partition(rows: int) -> NDArray[np.int64]:
    """Return bounds as `row_partition` does, where all rows are the same work."""
    return np.arange(_group.size + 1, dtype=np.int64) * rows // _group.size


def local_rows(bounds: NDArray[np.int64]) -> slice:
    """Return this rank's rows."""
    return slice(int(bounds[_group.rank]), int(bounds[_group.rank + 1]))


def local_generator(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator for draws that differ between ranks; `rng` itself does not advance, so all keep the same."""
    return rng if _group.size == 1 else np.random.default_rng([int(copy.deepcopy(rng).integers(2**63)), _group.rank])


# Collectives over rows and numbers ------------------------------------------------------------------------------------


def all_reduce_sum(array: Array) -> Array:
    """Sum an array over all ranks, in-place; every rank gets the same bits. A collective."""
    if _group.size > 1:
        import torch
        import torch.distributed as dist

        dist.all_reduce(torch.from_numpy(array))
    return array


def all_reduce_max(value: float) -> float:
    """Return the largest value over all ranks. A collective."""
    if _group.size == 1:
        return value
    import torch
    import torch.distributed as dist

    largest = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    return largest.item()


def all_gather_rows(array: Array, bounds: NDArray[np.int64]) -> Array:
    """Give every rank the rows that each has computed, in-place. A collective."""
    if _group.size > 1:
        _exchange(_broadcast, (array[bounds[rank] : bounds[rank + 1]] for rank in range(_group.size)))
    return array


def reduce_scatter_rows(array: NDArray[Any], bounds: NDArray[np.int64]) -> NDArray[Any]:
    """Return this rank's rows of the array summed over all ranks; the other rows become undefined. A collective."""
    if _group.size > 1:
        import torch
        import torch.distributed as dist

        _exchange(
            lambda rank, rows: dist.reduce(torch.from_numpy(rows), dst=rank, async_op=True),
            (array[bounds[rank] : bounds[rank + 1]] for rank in range(_group.size)),
        )
    return array[local_rows(bounds)]


def _exchange(send: Callable[[int, NDArray[Any]], Any], parts: Iterable[NDArray[Any]]) -> None:
    """Run one exchange for each rank's part, all at once: one direction need not wait for the other."""
    for under_way in [send(rank, rows) for rank, rows in enumerate(parts) if rows.size]:
        under_way.wait()


def average_gradients(parameters: Iterable["torch.Tensor"], weight: float) -> None:
    """Average gradients over all ranks, each with its `weight`, in one exchange for all parameters. A collective."""
    if _group.size == 1:
        return
    import torch
    import torch.distributed as dist

    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    together = torch.cat([*(gradient.reshape(-1) for gradient in gradients), torch.ones(1)]).mul_(weight)
    if _group.size == 2:
        together += _other_values(together)
    else:
        dist.all_reduce(together)
    together /= together[-1].clone()
    start = 0
    for gradient in gradients:
        gradient.copy_(together[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()


def _other_values(values: "torch.Tensor") -> "torch.Tensor":
    """Return the values of the other of two ranks: each sends once, where a sum over a ring goes around twice."""
    import torch
    import torch.distributed as dist

    received = torch.empty_like(values)
    for under_way in (dist.isend(values, 1 - _group.rank), dist.irecv(received, 1 - _group.rank)):
        assert under_way is not None  # of a rank that is in the group
        under_way.wait()
    return received


def broadcast_arrays(arrays: Iterable[NDArray[Any]]) -> None:
    """Give all ranks the first one's values: what all have computed alike may differ in its last bits. A collective."""
    if _group.size > 1:
        for array in arrays:
            _from_first(array)


# What only the first rank can find out --------------------------------------------------------------------------------


def run_on_first_and_broadcast(ask: Callable[[], Any]) -> Any:
    """Return to every rank what the first one's `ask()` returns (any JSON); its UserError is raised everywhere.

    A collective.
    """
    return ask() if _group.size == 1 else json.loads(broadcast_bytes(lambda: json.dumps(ask()).encode()))


def broadcast_bytes(ask: Callable[[], bytes]) -> bytes:
    """Return to every rank the bytes of the first one's `ask()`. A collective."""
    if _group.size == 1:
        return ask()
    answer, refused = b"", 0
    if is_first():
        try:
            answer = ask()
        except UserError as error:
            answer, refused = str(error).encode(), 1
    sizes = _from_first(np.array([len(answer), refused]))
    content = np.empty(int(sizes[0]), dtype=np.uint8)
    if is_first():
        content[:] = np.frombuffer(answer, dtype=np.uint8)
    result = _from_first(content).tobytes()
    if sizes[1]:
        raise UserError(result.decode())
    return result


def _from_first(array: Array) -> Array:
    """Overwrite the array with the first rank's, whatever its type; rows must be contiguous."""
    if array.size:
        _broadcast(0, array).wait()
    return array


def _broadcast(rank: int, array: NDArray[Any]) -> Any:
    """Start to broadcast the array of that rank to all others."""
    import torch
    import torch.distributed as dist

    return dist.broadcast(torch.from_numpy(array.reshape(-1).view(np.uint8)), src=rank, async_op=True)
