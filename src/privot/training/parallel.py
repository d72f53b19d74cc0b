r"""Processes, threads and memory of training steps; several processes share one batch.

Under torchrun, every process (rank) has the same weights, draws the same random numbers for the
**whole** batch, and computes its share of the rows. A step gathers the rows of other processes that it
needs, so the result is that of one large batch, whose transport plan has a smaller mini-batch bias.

The loss L depends on all rows through the gathered tensors. Each rank r computes L and differentiates it
with respect to its own rows only; then one all-reduce sums the gradients, $∇_θ L = \sum_r ∇_θ^{(r)} L$.
The sum is identical on all ranks, so all have the same weights. Up to the order of additions, these are
the weights that one process would learn from the same batch.

Only rank 0 writes files. Checkpoints do not depend on the number of ranks.

References:
    Li et al., *PyTorch distributed: experiences on accelerating data parallel training* (2020).
"""

import atexit
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from privot.core.errors import PrivotError
from privot.core.processes import started_by_torchrun
from privot.transport.ground import product_precision

_TIMEOUT = timedelta(minutes=10)
_MAX_ENTRIES_OF_ONE_THREAD = 2**20  # entries of a cost matrix


@dataclass(frozen=True)
class Group:
    """Processes that train together; by default a single one."""

    rank: int = 0  # number of this process
    size: int = 1  # number of processes

    def share(self, total: int) -> slice:
        """Return the range of this process's rows among `total` rows.

        Raises:
            PrivotError: if `total` is not a multiple of the number of processes.
        """
        if total % self.size:
            raise PrivotError(
                f"batch_size {total} cannot be shared by {self.size} processes: give a multiple"
            )
        count = total // self.size
        return slice(self.rank * count, (self.rank + 1) * count)

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all processes in order of rank, without gradients."""
        if self.size == 1:
            return rows
        gathered = rows.new_empty((self.size * len(rows), *rows.shape[1:]))
        sent, parts = rows.detach().contiguous(), gathered.split(len(rows))
        parts[self.rank].copy_(sent)
        # Processes exchange rows directly: gloo's all-gather takes twice as long with two processes.
        others = [rank for rank in range(self.size) if rank != self.rank]
        exchanges = [dist.P2POp(dist.isend, sent, rank) for rank in others]
        exchanges += [dist.P2POp(dist.irecv, parts[rank], rank) for rank in others]
        for request in dist.batch_isend_irecv(exchanges):
            request.wait()
        return gathered

    def gather_with_gradient(self, rows: Tensor) -> Tensor:
        """Return the rows of all processes; the gradient of a row is summed over all processes."""
        if self.size == 1:
            return rows
        gathered: Tensor = _Gather.apply(rows, self)
        return gathered

    def total(self, part: Tensor) -> Tensor:
        """Return the sum of all processes' parts; gradients flow to this process's part only."""
        if self.size == 1:
            return part
        total: Tensor = _Total.apply(part)
        return total

    def add_gradients(self, model: nn.Module) -> None:
        """Replace every gradient by its sum over the processes."""
        if self.size == 1:
            return
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        dist.all_reduce(flat)
        for grad, part in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
            grad.copy_(part.view_as(grad))

    def any(self, flag: bool) -> bool:
        """Return True if the flag is set in any process."""
        if self.size == 1:
            return flag
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        largest = torch.tensor(int(flag), device=device)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return bool(largest)


ALONE = Group()


def join(device: torch.device) -> Group:
    """Join the process group that torchrun started (gloo on CPUs, nccl on GPUs), or return `ALONE`.

    The process leaves the group only at exit, since a second `join` would read outdated addresses. It
    leaves without waiting for the others unless `wait_at_exit` was called.
    """
    if not started_by_torchrun():
        return ALONE
    if not dist.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(device)
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=_TIMEOUT)
    for function in (_wait_for_others, dist.destroy_process_group):  # registered by an earlier call
        atexit.unregister(function)
    atexit.register(dist.destroy_process_group)
    return Group(dist.get_rank(), dist.get_world_size())


def wait_at_exit(group: Group) -> None:
    """Make this process wait at exit for the others, before connections are closed.

    Rank 0 may still be saving when the others are done. A process that fails earlier must not wait,
    because the others are inside a step and would not reach the barrier.
    """
    if group.size > 1:
        atexit.unregister(_wait_for_others)
        atexit.register(_wait_for_others)  # runs first, as the function that was registered last


def _wait_for_others() -> None:
    with suppress(RuntimeError):  # raised if another process was killed
        dist.barrier()


def local_device(name: str) -> torch.device:
    """Return the device of a name; `"auto"` is a GPU if there is one: of several, the local rank's.

    Raises:
        PrivotError: if a GPU is named but none is available.
    """
    cuda = torch.cuda.is_available()
    if name.startswith("cuda") and not cuda:
        raise PrivotError(f"device {name!r} is not available here: use 'auto' or 'cpu'")
    if name == "auto":
        name = "cuda" if cuda else "cpu"
    device = torch.device(name)
    if device.type != "cuda" or device.index is not None:
        return device
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


class _Gather(torch.autograd.Function):
    """Gather rows of all processes; the backward pass sums all gradients of this process's rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, group: Group) -> Tensor:
        ctx.share = group.share(group.size * len(rows))
        return group.gather(rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        return total[ctx.share], None


class _Total(torch.autograd.Function):
    """Sum over processes, whose gradient the backward pass returns unchanged."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        total = part.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


@contextmanager
def threads_for(num_entries: int) -> Iterator[None]:
    """Use one thread inside the block if the matrices of a step have at most 2^20 entries.

    With several threads, which synchronize after every small operation, a step was not faster, and on a
    busy machine took ten to fifty times as long. With one, results do not depend on the number of cores.
    """
    keep_freed_memory()
    before = torch.get_num_threads()
    if num_entries <= _MAX_ENTRIES_OF_ONE_THREAD:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def short_products() -> AbstractContextManager[None]:
    """Return a context in which products of float32 matrices may use bfloat16."""
    return product_precision("medium")


@cache
def keep_freed_memory() -> None:
    """Make the allocator reuse freed arrays of up to 31 MiB instead of returning them to the system.

    Linux's allocator returns freed arrays above 128 KiB to the system, and the page faults of the next
    array take up to a third of a small step. Freeing one large block raises that threshold to the
    block's size for the rest of the process (mallopt(3), M_MMAP_THRESHOLD, at most 32 MiB).
    """
    block = np.empty(31 * 2**20, np.uint8)
    del block
