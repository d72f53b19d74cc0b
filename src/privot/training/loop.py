r"""Training loop of one process or several, with averaged weights, clean interruption and resumption.

The optimizer is Adam (Kingma, Ba 2015), whose learning rate rises linearly during the first steps and
then decays to zero like a cosine. The final weights are an exponential moving average over the steps,
which removes most of the noise of the last batches. A resumed run continues exactly.

**Time limit.** The time of a step is estimated from the first steps, and as many steps are planned as
fit into the limit, so the learning rate still decays to zero. Their number depends on the machine.

**Several processes.** Under torchrun, every process (rank) has the same weights, draws the same random
numbers for the **whole** batch, and computes its share of the rows. A step gathers the rows of other
processes that it needs, so the result is that of one large batch, whose transport plan has a smaller
mini-batch bias.

The loss L depends on all rows through the gathered tensors. Each rank r computes L and differentiates it
with respect to its own rows only; then one all-reduce sums the gradients, $∇_θ L = \sum_r ∇_θ^{(r)} L$.
The sum is identical on all ranks, so all have the same weights. Up to the order of additions, these are
the weights that one process would learn from the same batch.

Only rank 0 writes files. Checkpoints do not depend on the number of ranks.

References:
    Li et al., *PyTorch distributed: experiences on accelerating data parallel training* (2020).
"""

import atexit
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from privot.core.errors import (
    MOST_STEPS,
    PrivotError,
    require_count,
    require_learning_rate,
    require_seed,
)
from privot.core.processes import deferred_interruption, started_by_torchrun
from privot.models import HISTORY_COLUMNS, NO_CHECKPOINT, Checkpoint, History
from privot.training import Interrupted, Progress, StepLimit

# Returns loss and marginal error (`privot.transport.sinkhorn`) of one step, from the run's generator.
Objective = Callable[[torch.Generator], tuple[Tensor, float]]

_WARM_UP_STEPS = 50  # steps in which the learning rate rises
_HISTORY_ROWS = 400  # approximate number of rows of a history
_TIMEOUT = timedelta(minutes=10)  # for which a process waits for others
_MAX_ENTRIES_OF_ONE_THREAD = 2**20  # most entries of a matrix for which a step uses one thread


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
    """Return the device of a name; `"auto"` is a GPU if there is one, the local rank's if several.

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

    Several threads synchronize after every small operation: a step was not faster with them, and took
    ten to fifty times as long on a busy machine. With one thread, results do not depend on the number of
    cores.
    """
    keep_freed_memory()
    before = torch.get_num_threads()
    if num_entries <= _MAX_ENTRIES_OF_ONE_THREAD:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def keep_freed_memory() -> None:
    """Make the allocator reuse freed arrays of up to 31 MiB instead of returning them to the system.

    Linux's allocator returns freed arrays above 128 KiB to the system, and the page faults of the next
    array take up to a third of a small step. Freeing one large block raises that threshold to the
    block's size for the rest of the process (mallopt(3), M_MMAP_THRESHOLD, at most 32 MiB).
    """
    block = np.empty(31 * 2**20, np.uint8)
    del block


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a run, which determine its result together with the objective.

    Arguments:
        steps: Number of optimizer steps.
        learning_rate: Peak learning rate of Adam, positive.
        averaging: Decay per step of the moving average of the weights, in [0, 1).
        seed: Seed of batches, latents and simulated noise.
        minutes: Time limit in minutes; fewer steps are taken if `steps` would take longer.

    Raises:
        PrivotError: if a setting is out of range.
    """

    steps: int
    learning_rate: float = 1e-3
    averaging: float = 0.999
    seed: int = 0
    minutes: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", require_count("steps", self.steps, MOST_STEPS))
        require_learning_rate(self.learning_rate)
        object.__setattr__(self, "seed", require_seed(self.seed))
        if not 0 <= self.averaging < 1:
            raise PrivotError(f"averaging {self.averaging} is not in [0, 1): try 0.999")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step; steps are counted from 0."""
        warm_up = min(1.0, (step + 1) / _WARM_UP_STEPS)
        return self.learning_rate * warm_up * 0.5 * (1 + math.cos(math.pi * step / self.steps))

    def has_row(self, step: int) -> bool:
        """Return whether the history has a row after a step; steps are counted from 1."""
        return step % max(1, self.steps // _HISTORY_ROWS) == 0 or step == self.steps


def train(
    model: nn.Module,
    objective: Objective,
    settings: TrainingSettings,
    *,
    checkpoint: Checkpoint = NO_CHECKPOINT,
    progress: Progress | None = None,
    seek: Callable[[int], None] | None = None,
    group: Group = ALONE,
) -> History:
    """Train `model` in place on `objective`, and set its weights to their moving average.

    Arguments:
        model: Module with the weights that `objective` depends on.
        objective: Function from a random generator to the loss and the marginal error of one step.
        settings: Steps, learning rate, averaging, seed, time limit.
        checkpoint: File of the state, saved every half minute and on interruption. A resumed run must
            have the same `settings` and the checkpoint's identity (the data, the architecture).
        progress: Callback after every step.
        seek: Callback with the number of steps already taken, called before the first step.
        group: Processes that train together, each by the loss of all rows and gradients of its own rows.

    Raises:
        Interrupted: on SIGINT or SIGTERM, between two steps; the model can be used.
        PrivotError: if the loss is not finite.
    """
    state = TrainingState(model, settings.averaging, settings.learning_rate, settings.seed)
    checkpoint = checkpoint.of(asdict(settings))
    saved = checkpoint.load()
    if saved is not None:
        state.load({name: torch.from_numpy(array) for name, array in saved.items()})
    if seek is not None:
        seek(state.step)
    started, recent = time.perf_counter() - state.seconds, _RunningMeans()
    limit = None if settings.minutes is None else StepLimit(60 * settings.minutes, state.step)
    settings = state.plan(settings, limit)
    with deferred_interruption() as interruption:
        while state.step < settings.steps:
            loss, marginal_error = _step(model, objective, settings, state, group)
            recent.add(loss, marginal_error)
            state.seconds = time.perf_counter() - started
            if progress is not None and group.rank == 0:
                progress(state.step, settings.steps, recent.loss)
            has_row = settings.has_row(state.step)
            # Means since the last row are not saved, so a run with a checkpoint stops only at rows.
            stop = (has_row or checkpoint.path is None) and group.any(interruption.requested)
            if has_row or stop:
                rate = settings.rate(state.step - 1)
                row = (state.step, recent.loss, rate, recent.marginal_error, state.seconds)
                state.history.rows.append(row)
                recent = _RunningMeans()
            if has_row and (checkpoint.due or stop) and group.rank == 0:
                checkpoint.save({name: x.cpu().numpy() for name, x in state.tensors().items()})
            if stop:
                break
            settings = state.plan(settings, limit)
    model.load_state_dict(state.average.module.state_dict())
    if state.step < settings.steps:
        raise Interrupted(f"stopped after step {state.step:,} of {settings.steps:,}", state.history)
    return state.history


def _step(
    model: nn.Module,
    objective: Objective,
    settings: TrainingSettings,
    state: "TrainingState",
    group: Group,
) -> tuple[float, float]:
    """Take one step of the optimizer and the average; return the loss and the marginal error."""
    for parameters in state.optimizer.param_groups:
        parameters["lr"] = settings.rate(state.step)
    loss, marginal_error = objective(state.rng)
    state.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    group.add_gradients(model)
    state.optimizer.step()
    state.average.update_parameters(model)
    state.step += 1
    return float(loss.detach()), marginal_error


class _RunningMeans:
    """Means of loss and marginal error since the history's last row."""

    def __init__(self) -> None:
        self.loss = self.marginal_error = self._losses = self._marginal_errors = 0.0
        self._count = 0

    def add(self, loss: float, marginal_error: float) -> None:
        if not math.isfinite(loss):
            raise PrivotError(f"the loss became {loss}: lower learning_rate, or report a bug")
        self._losses += loss
        self._marginal_errors += marginal_error
        self._count += 1
        self.loss = self._losses / self._count
        self.marginal_error = self._marginal_errors / self._count


class TrainingState:
    """State of a run; a run that is resumed from it continues bit for bit on the same machine."""

    def __init__(self, model: nn.Module, averaging: float, learning_rate: float, seed: int) -> None:
        self.model = model
        self.average = AveragedModel(model, multi_avg_fn=_running_average(averaging))
        self.optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.99))
        self.rng = torch.Generator().manual_seed(seed)
        self.step = 0
        self.time_limited_steps = 0  # steps that fit into the time limit; 0 until estimated
        self.seconds = 0.0
        self.history = History()

    def plan(self, settings: TrainingSettings, limit: StepLimit | None) -> TrainingSettings:
        """Return the settings with as many steps as fit into the time limit, once it is estimated."""
        if limit is not None and not self.time_limited_steps:
            self.time_limited_steps = min(limit.steps(self.step, self.seconds), settings.steps)
        return replace(settings, steps=self.time_limited_steps or settings.steps)

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors of the state by name."""
        tensors = {"rng": self.rng.get_state(), "step": torch.tensor(self.step)}
        tensors["fewer_steps"] = torch.tensor(self.time_limited_steps)
        tensors |= {f"model.{k}": v for k, v in self.model.state_dict().items()}
        tensors |= {f"average.{k}": v for k, v in self.average.state_dict().items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{k}": v for k, v in moments.items()}
        tensors["history"] = torch.tensor(self.history.rows, dtype=torch.float64)
        tensors["seconds"] = torch.tensor(self.seconds, dtype=torch.float64)
        return tensors

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state from the tensors of a run with the same model and settings."""
        self.model.load_state_dict(_with_prefix(tensors, "model."))
        self.average.load_state_dict(_with_prefix(tensors, "average."))
        optimizer = self.optimizer.state_dict()
        for key, value in _with_prefix(tensors, "optimizer.").items():
            index, moment = key.split(".")
            optimizer["state"].setdefault(int(index), {})[moment] = value
        self.optimizer.load_state_dict(optimizer)
        self.rng.set_state(tensors["rng"])
        rows = tensors["history"].reshape(-1, len(HISTORY_COLUMNS)).tolist()
        self.history = History([tuple(row) for row in rows])
        self.step, self.seconds = int(tensors["step"]), float(tensors["seconds"])
        self.time_limited_steps = int(tensors["fewer_steps"])


def _running_average(decay: float) -> Callable[[Any, Any, Any], None]:
    """Return the update of an exponential moving average whose decay grows to `decay`.

    At step t it is min(`decay`, (1+t)/(10+t)). With a constant decay, the initial weights would bias
    every run shorter than a few times 1/(1−`decay`) steps.
    """

    def update(averages: Any, weights: Any, num_averaged: Any) -> None:
        t = float(num_averaged)
        get_ema_multi_avg_fn(min(decay, (1 + t) / (10 + t)))(averages, weights, num_averaged)

    return update


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, under the rest of their names."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
