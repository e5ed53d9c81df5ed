# SPDX-License-Identifier: Apache-2.0
"""Ranks: several processes that train one model. Who does which rows, how parts become a whole, and who writes.

Every rank runs the same program. What is worth it is split: a rank does its own rows (`cuts`) and is given those of the
others (`fill`), or the sum over all (`total`). Everything else is done by all of them alike, and decisions follow from
numbers that all have. One rank, the first, has the run's folder and speaks. Alone, a process is one rank and nothing
here does anything.
"""

import copy
import json
import os
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.core.files import written_whole

if TYPE_CHECKING:
    import torch

_PATIENCE = timedelta(hours=6)  # a rank that has died is noticed at once; this is for one that works for long
_UNSHARED_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
JOB = "job"  # the file in a run's folder that says which job of ranks has begun it
_world_size, _rank = 1, 0

Array = TypeVar("Array", bound=NDArray[Any])


def join() -> None:
    """Meet the other ranks, if the process was started as one of several (by torchrun, which sets these variables)."""
    global _world_size, _rank
    if rank_and_world_size()[1] == 1:
        return
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=_PATIENCE)
    _world_size, _rank = dist.get_world_size(), dist.get_rank()
    if _rank == 0 and os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0" and _UNSHARED_STORE not in os.environ:
        print(
            f"Set {_UNSHARED_STORE}=1 for torchrun: without it, a job does not recover from the loss of a rank.",
            file=sys.stderr,
        )


def rank_and_world_size() -> tuple[int, int]:
    """Which rank this process was started as, and of how many: for work that needs nothing of the others."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 0, 1
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def leave() -> None:
    """Part from the others once all is done."""
    global _world_size, _rank
    if _world_size > 1:
        import torch.distributed as dist

        dist.destroy_process_group()
        _world_size, _rank = 1, 0


def world_size() -> int:
    return _world_size


def rank() -> int:
    return _rank


def is_first() -> bool:
    """Whether this rank writes and speaks."""
    return _rank == 0


def goes_on(folder: Path, may_begin: bool) -> bool:
    """Whether this job has begun the run in the folder before one of its ranks was lost; if it begins now, it signs."""

    def signed() -> bool:
        name, mark = os.environ["TORCHELASTIC_RUN_ID"], folder / JOB
        if mark.is_file() and mark.read_text(encoding="utf-8") == name:
            return True
        if may_begin:
            with written_whole(mark) as temporary:
                temporary.write_text(name, encoding="utf-8")
        return False

    return _world_size > 1 and bool(run_on_first_and_broadcast(signed))


# Who does what --------------------------------------------------------------------------------------------------------


def row_partition(offsets: NDArray[np.integer]) -> NDArray[np.int64]:
    """Rank r does the rows from cuts[r] to cuts[r + 1]. `offsets` (as of a CSR matrix) tell how much work rows are."""
    shares = np.arange(1, _world_size) * (int(offsets[-1]) / _world_size)
    inner = np.searchsorted(offsets, shares, side="left")
    return np.concatenate([[0], inner, [len(offsets) - 1]]).astype(np.int64)


def even_partition(rows: int) -> NDArray[np.int64]:
    """The same where all rows are the same work."""
    return np.arange(_world_size + 1, dtype=np.int64) * rows // _world_size


def local_rows(bounds: NDArray[np.int64]) -> slice:
    """This rank's rows."""
    return slice(int(bounds[_rank]), int(bounds[_rank + 1]))


def local_generator(rng: np.random.Generator) -> np.random.Generator:
    """For draws that differ between ranks; `rng` stays as it is, the same for all and as far as one rank would be."""
    return rng if _world_size == 1 else np.random.default_rng([int(copy.deepcopy(rng).integers(2**63)), _rank])


# From parts to a whole ------------------------------------------------------------------------------------------------


def all_reduce_sum(array: Array) -> Array:
    """The sum over all ranks, in place; the same bits everywhere."""
    if _world_size > 1:
        import torch
        import torch.distributed as dist

        dist.all_reduce(torch.from_numpy(array))
    return array


def all_reduce_max(value: float) -> float:
    """The largest over all ranks."""
    if _world_size == 1:
        return value
    import torch
    import torch.distributed as dist

    found = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item()


def all_gather_rows(array: Array, bounds: NDArray[np.int64]) -> Array:
    """Give everyone the rows that each rank has found, in place."""
    if _world_size > 1:
        _together(_sent, (array[bounds[rank] : bounds[rank + 1]] for rank in range(_world_size)))
    return array


def reduce_scatter_rows(array: NDArray[Any], bounds: NDArray[np.int64]) -> NDArray[Any]:
    """The sum over all ranks for this rank's rows of the array, which it returns; the other rows are left undefined."""
    if _world_size > 1:
        import torch
        import torch.distributed as dist

        _together(
            lambda rank, rows: dist.reduce(torch.from_numpy(rows), dst=rank, async_op=True),
            (array[bounds[rank] : bounds[rank + 1]] for rank in range(_world_size)),
        )
    return array[local_rows(bounds)]


def _together(send: Callable[[int, NDArray[Any]], Any], parts: Iterable[NDArray[Any]]) -> None:
    """One exchange for each rank's part, all at once: what goes one way need not wait for what goes the other."""
    for under_way in [send(rank, rows) for rank, rows in enumerate(parts) if rows.size]:
        under_way.wait()


def average_gradients(parameters: Iterable["torch.Tensor"], weight: float) -> None:
    """Mean gradients over all ranks, each weighing what it says; one exchange however many parameters there are."""
    if _world_size == 1:
        return
    import torch
    import torch.distributed as dist

    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    together = torch.cat([*(gradient.reshape(-1) for gradient in gradients), torch.ones(1)]).mul_(weight)
    if _world_size == 2:
        together += _others(together)
    else:
        dist.all_reduce(together)
    together /= together[-1].clone()
    start = 0
    for gradient in gradients:
        gradient.copy_(together[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()


def _others(values: "torch.Tensor") -> "torch.Tensor":
    """The other rank's values, of two: each sends once, where a sum over a ring goes around twice."""
    import torch
    import torch.distributed as dist

    received = torch.empty_like(values)
    for under_way in (dist.isend(values, 1 - _rank), dist.irecv(received, 1 - _rank)):
        assert under_way is not None  # of a rank that is in the group
        under_way.wait()
    return received


def broadcast_parameters(tensors: Iterable["torch.Tensor"]) -> None:
    """The first rank's values for everyone: what all have computed alike may differ in its last bits."""
    if _world_size > 1:
        for tensor in tensors:
            _from(0, tensor.detach().numpy())


# What only the first rank can know ------------------------------------------------------------------------------------


def run_on_first_and_broadcast(ask: Callable[[], Any]) -> Any:
    """What the first rank finds (anything that JSON can say), for all; a UserError of it is everyone's."""
    return ask() if _world_size == 1 else json.loads(broadcast_bytes(lambda: json.dumps(ask()).encode()))


def broadcast_bytes(ask: Callable[[], bytes]) -> bytes:
    if _world_size == 1:
        return ask()
    found, refused = b"", 0
    if is_first():
        try:
            found = ask()
        except UserError as error:
            found, refused = str(error).encode(), 1
    sizes = _from(0, np.array([len(found), refused]))
    content = np.empty(int(sizes[0]), dtype=np.uint8)
    if is_first():
        content[:] = np.frombuffer(found, dtype=np.uint8)
    result = _from(0, content).tobytes()
    if sizes[1]:
        raise UserError(result.decode())
    return result


def _from(rank: int, array: Array) -> Array:
    """The array as that rank has it, in place, whatever its type; rows must be contiguous."""
    if array.size:
        _sent(rank, array).wait()
    return array


def _sent(rank: int, array: NDArray[Any]) -> Any:
    """The array of that rank on its way to all others."""
    import torch
    import torch.distributed as dist

    return dist.broadcast(torch.from_numpy(array.reshape(-1).view(np.uint8)), src=rank, async_op=True)
