r"""Processes, threads and memory of a training step: several processes share one global batch.

Started by torchrun, every process (rank) holds the same weights, draws the same random numbers for the
**whole** batch, and works on its share of the rows. Rows of the others that a step needs are gathered:
more processes make the same batch faster, or a larger one as fast, never several small ones side by
side. For plans between batches that is not a detail: two plans of b/2 points have the mini-batch bias of
b/2, the gathered one that of b.

The loss L depends on all rows through the gathered tensors. With $L$ known to everybody and rank r
differentiating it with respect to its own rows only, $∇_θ L = \sum_r ∇_θ^{(r)} L$, which one
all-reduce adds up. The sum is the same number on all ranks, so their weights stay equal; they are
those of one process with the same batch, up to the order of additions.

Only rank 0 writes; checkpoints hold nothing of how many ranks there were.

References:
    Li et al., *PyTorch distributed: experiences on accelerating data parallel training* (2020).
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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

_TIMEOUT = timedelta(minutes=10)


@dataclass(frozen=True)
class Group:
    """The processes that train together; one alone by default."""

    rank: int = 0  # number of this process
    size: int = 1  # number of processes

    def share(self, total: int) -> slice:
        """Return this process's rows of `total`.

        Raises:
            PrivotError: if they cannot be shared equally.
        """
        if total % self.size:
            raise PrivotError(
                f"batch_size {total} cannot be shared by {self.size} processes: give a multiple"
            )
        each = total // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def gather(self, own: Tensor) -> Tensor:
        """Return all processes' rows in order, without gradients."""
        if self.size == 1:
            return own
        rows = own.new_empty((self.size * len(own), *own.shape[1:]))
        mine, parts = own.detach().contiguous(), rows.split(len(own))
        parts[self.rank].copy_(mine)
        # Straight from each to each: gloo's all-gather takes twice the time of two that swap.
        others = [rank for rank in range(self.size) if rank != self.rank]
        swaps = [dist.P2POp(dist.isend, mine, rank) for rank in others]
        swaps += [dist.P2POp(dist.irecv, parts[rank], rank) for rank in others]
        for request in dist.batch_isend_irecv(swaps):
            request.wait()
        return rows

    def gather_with_gradient(self, own: Tensor) -> Tensor:
        """Return all processes' rows; the gradient of each row is summed over all processes."""
        if self.size == 1:
            return own
        rows: Tensor = _Gather.apply(own, self)
        return rows

    def total(self, part: Tensor) -> Tensor:
        """Return the sum of the processes' parts, known to all; each differentiates its own."""
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
        """Return True if the flag is set in one of the processes."""
        if self.size == 1:
            return flag
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        largest = torch.tensor(int(flag), device=device)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return bool(largest)


ALONE = Group()


def join(device: torch.device) -> Group:
    """Join the processes that torchrun started, or none: by gloo, on GPUs by nccl.

    It is left when the process ends: one that joined, left and joined again would read addresses that
    are no longer true. Until `stay` is called, at once. (Compiled loops use as many threads as
    PyTorch, to which torchrun gives one.)
    """
    if not started_by_torchrun():
        return ALONE
    if not dist.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(device)
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=_TIMEOUT)
    _at_exit(_leave)
    return Group(dist.get_rank(), dist.get_world_size())


def stay(group: Group) -> None:
    """Wait at exit for the other processes, before their connections are closed.

    The first process may have to save for long while the others have nothing left to do. One that ends
    in the middle of work waits for nobody: the others are in a step that would never meet it.
    """
    if group.size > 1:
        _at_exit(_leave_together)


def _at_exit(way: Callable[[], None]) -> None:
    for other in (_leave, _leave_together):
        atexit.unregister(other)
    atexit.register(way)


def _leave() -> None:
    dist.destroy_process_group()


def _leave_together() -> None:
    with suppress(RuntimeError):  # another one was killed meanwhile
        dist.barrier()
    _leave()


def local_device(name: str) -> torch.device:
    """Return the device of a name; `"auto"` is a GPU if there is one, of several this process's own.

    Raises:
        PrivotError: for a GPU where there is none.
    """
    cuda = torch.cuda.is_available()
    if name.startswith("cuda") and not cuda:
        raise PrivotError(f"device {name!r} is not available here: use 'auto' or 'cpu'")
    device = torch.device(("cuda" if cuda else "cpu") if name == "auto" else name)
    if device.type != "cuda" or device.index is not None:
        return device
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, group: Group) -> Tensor:
        ctx.share = group.share(group.size * len(own))
        return group.gather(own)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        return total[ctx.share], None


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        total = part.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


# Largest number of entries of a batch's cost matrix that one thread works on alone.
_MAX_ENTRIES_OF_ONE_THREAD = 2**20


@contextmanager
def threads_for(num_entries: int) -> Iterator[None]:
    """Use one thread inside the block if steps handle matrices of few entries.

    Threads that meet after every small operation gain nothing, and on a machine whose cores are
    busy they wait for each other: ten to fifty times slower was measured. One thread also makes
    the numbers independent of the number of cores.
    """
    keep_freed_memory()
    before = torch.get_num_threads()
    if num_entries <= _MAX_ENTRIES_OF_ONE_THREAD:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def short_products() -> Iterator[None]:
    """Let products of single precision use bfloat16 inside the block, where the processor has it.

    Twice as fast on such processors, and the same as before on others.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@cache
def keep_freed_memory() -> None:
    """Have this process keep arrays of a step's size, once they are freed, for the next step.

    Linux's allocator returns freed arrays above 128 KiB to the system, and fetches the next one page by
    page: up to a third of a small step's time. Freeing one large block, untouched, raises that limit to
    the block's size, for good (mallopt(3), M_MMAP_THRESHOLD; it adjusts itself up to 32 MiB).
    """
    block = np.empty(31 * 2**20, np.uint8)
    del block
