r"""Training steps of generators: minibatches of reports, and losses.

**Batches from memory** are drawn uniformly with replacement.

**Batches from disk.** In every epoch the row groups are put in random order and divided into *windows*
of several groups. The reports of a window are shuffled and divided into batches; those that do not fill
a batch are left out. A release is written in random order (`privot.randomizer.publishing`), so batches
are uniform samples without replacement; for other files, a batch has reports of its window only. The
k-th batch is a function of the seed and k, so a resumed run reads one window and continues bit for bit.

**A loss** is a function of a `Step` (the generator's outputs, a batch of reports, their cost −log f); it
has no access to records. A custom loss is given to `privot.fit(release, loss=…)`. `plain` is the
transport cost with entropic weight 1, whose minimizer is the distribution of the *clean* records
(`privot.local.networks.cost`). Its gradient is the gradient of $⟨π, C⟩$ for a fixed plan π (Reshetova et
al., algorithm 1).

**Mini-batch bias.** The theorem of recovery holds for distributions. A plan between b outputs and b
reports overfits the noise, and the learned spread is too small: in 50 dimensions with noise of standard
deviation 1 it is half the truth at b = 400. `self_corrected` subtracts the gradient for reports that are
simulated from the model,

$$ g = g_b(θ; Y) − g_b(θ; Y'), \qquad Y' = M(\text{stopgrad } G_θ(z')) , $$

with the same generated batch in both terms. If $P_G = P_X$, Y′ has the distribution of Y, so $E\,g = 0$
for every b, dimension and mechanism; as b → ∞ the second term vanishes. In few dimensions the bias is
small, and the second plan only adds variance. The latents z′ must be drawn anew: reports simulated from
the outputs of the same batch would again be biased.

**Likelihood** (`likelihood`). If all columns are reported as codes, outputs are distributions, and the b
latents of a batch are a mixture, for which m reports have the exact mean negative log-likelihood

$$ −\frac1m \sum_j \log \frac1b \sum_i e^{−C_{ij}} . $$

This is the transport problem with a free first marginal, so no plan has to be computed. The number b of
latents in a step limits the number of classes: with 200, a network does not fit the noise, with more it
does.

Privacy: everything is a function of the release, hence post-processing; the seed need not be secret.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Protocol

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from privot.core.errors import PrivotError
from privot.local.networks.cost import LikelihoodCost, ReportBatch
from privot.local.networks.heads import Outputs
from privot.randomizer import Release
from privot.randomizer.reports.rows import ReportTable
from privot.training.loop import ALONE, Group
from privot.transport import SinkhornResult, SinkhornSolver, entropic_cost
from privot.transport.sinkhorn import entropic_cost_of_rows

_MAX_IN_MEMORY = 2**20  # most reports of a release in files that are read into memory
_WINDOW_BYTES, _MIN_BATCHES = 2**25, 4  # approximate size of a window; its fewest batches
_BLOCK_BYTES = 2**21  # approximate size of a block of batches, which are read at once


class DrawsLatent(Protocol):
    """Generator that draws its latents."""

    def draw_latent(self, num_rows: int, rng: torch.Generator) -> Tensor:
        """Draw latents (num_rows, d)."""


class Minibatches(ABC):
    """Source of the reports of each step, and of the latents that are matched with them."""

    @abstractmethod
    def draw(self, rng: torch.Generator) -> ReportBatch:
        """Return the next batch."""

    def latent(self, generator: DrawsLatent, num_rows: int, rng: torch.Generator) -> Tensor:
        """Draw latents (num_rows, d) with the distribution of the people in the last batch."""
        return generator.draw_latent(num_rows, rng)

    def seek(self, step: int) -> None:  # noqa: B027  # nothing to do if batches depend on `rng` only
        """Continue with the batch of a step; steps are counted from 0."""


def minibatches(
    release: Release, cost: LikelihoodCost, size: int, seed: int, device: torch.device
) -> Minibatches:
    """Create batches of `size` reports, from disk for a large release in files, else from memory.

    The cost reads the reports; the seed determines the order of those on disk.
    """
    if release.rows.in_memory or len(release) <= _MAX_IN_MEMORY:
        return FromMemory(release, cost, size, device)
    return FromDisk(release, cost, size, seed, device)


class FromMemory(Minibatches):
    """Batches drawn uniformly with replacement from memory."""

    def __init__(
        self, release: Release, cost: LikelihoodCost, size: int, device: torch.device
    ) -> None:
        self._reports, self._size, self._device = cost.read(release, device), size, device

    def draw(self, rng: torch.Generator) -> ReportBatch:
        index = torch.randint(len(self._reports), (self._size,), generator=rng)
        return self._reports.rows(index.to(self._device))


class FromDisk(Minibatches):
    """Batches of `size` reports from windows of row groups on disk, in the seed's order.

    Raises:
        PrivotError: if there are fewer reports than a batch.
    """

    def __init__(
        self,
        release: Release,
        cost: LikelihoodCost,
        size: int,
        seed: int,
        device: torch.device,
        window_bytes: int = _WINDOW_BYTES,
    ) -> None:
        if len(release) < size:
            raise PrivotError(
                f"batch_size {size} is more than the release's {len(release)} reports: give fewer"
            )
        self._release, self._cost, self._size = release, cost, size
        self._seed, self._device = seed, device
        self._groups = release.rows.row_groups()
        row_bytes = max(1, release.rows.row_bytes())
        self._window_rows = max(_MIN_BATCHES * size, window_bytes // row_bytes)
        self._block_size = max(1, _BLOCK_BYTES // row_bytes // size) * size
        self._thread = ThreadPoolExecutor(1)
        self.seek(0)

    def seek(self, step: int) -> None:
        self._blocks = self._blocks_from(step)
        self._ahead: Future[ReportBatch] = self._thread.submit(next, self._blocks)
        self._block, self._next_row = self._next_block(), 0

    def draw(self, rng: torch.Generator) -> ReportBatch:
        if self._next_row == len(self._block):
            self._block, self._next_row = self._next_block(), 0
        rows = torch.arange(self._next_row, self._next_row + self._size)
        self._next_row += self._size
        return self._block.rows(rows.to(self._device))

    def _next_block(self) -> ReportBatch:
        """Return the block that the thread has read, and start to read the next one."""
        block = self._ahead.result()
        self._ahead = self._thread.submit(next, self._blocks)
        return block

    def _blocks_from(self, step: int) -> Iterator[ReportBatch]:
        """Yield blocks of batches without end, from the batch of a step on."""
        skipped = step  # batches to skip
        for epoch in count():
            for number, groups in enumerate(self._windows(epoch)):
                batches = sum(self._groups[group].num_rows for group in groups) // self._size
                if skipped >= batches:
                    skipped -= batches
                    continue
                yield from self._blocks_of_window(epoch, number, groups, skipped * self._size)
                skipped = 0

    def _windows(self, epoch: int) -> list[list[int]]:
        """Divide the row groups of an epoch into windows of row group numbers."""
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._groups)).tolist()
        ends = accumulate(self._groups[group].num_rows for group in order)
        windows: dict[int, list[int]] = {}
        for group, end in zip(order, ends, strict=True):
            windows.setdefault((end - 1) // self._window_rows, []).append(group)
        return list(windows.values())

    def _blocks_of_window(
        self, epoch: int, number: int, groups: list[int], start: int
    ) -> Iterator[ReportBatch]:
        """Yield the blocks of the given window of an epoch, from its report `start` on."""
        tables = [self._release.rows.read(self._groups[group]) for group in groups]
        table = pa.concat_tables(tables).combine_chunks()
        order = np.random.default_rng([self._seed, epoch, number]).permutation(table.num_rows)
        full = table.num_rows // self._size * self._size
        for first in range(start, full, self._block_size):
            rows = table.take(pa.array(order[first : min(full, first + self._block_size)]))
            block = Release(ReportTable.of(rows), self._release.randomizer)
            yield self._cost.read(block, self._device)


@dataclass(frozen=True, eq=False)
class Step:
    """Inputs of a loss.

    In a group of processes, `outputs` are this process's share, but for `likelihood` all outputs.
    """

    outputs: Outputs  # outputs of the head for b new latents, by column, differentiable
    reports: ReportBatch  # batch of m reports from the release
    cost: LikelihoodCost  # −log f of outputs and reports; also simulates reports of outputs
    fresh: Callable[[], Outputs]  # draws outputs for b other latents
    solver: SinkhornSolver  # solver of transport problems
    rng: torch.Generator  # source of randomness
    group: Group = ALONE  # processes that train together

    @torch.no_grad()
    def simulated(self) -> ReportBatch:
        """Simulate m reports of new outputs of the model, without gradient."""
        return self.cost.simulate(self.fresh(), self.reports, self.rng)

    def entropic_costs(self, *batches: ReportBatch) -> tuple[list[Tensor], float]:
        """Compute the entropic cost to each batch of m reports, and the largest marginal error."""
        # One cost matrix for all batches, so that its gradient in the outputs is one product.
        costs = self.cost(self.outputs, ReportBatch.joined(batches)).split(len(self.reports), dim=1)
        solved = [self._entropic_cost(part.contiguous()) for part in costs]
        return [value for value, _ in solved], max(result.marginal_error for _, result in solved)

    def _entropic_cost(self, costs: Tensor) -> tuple[Tensor, SinkhornResult]:
        if self.group.size == 1:
            return entropic_cost(costs, solver=self.solver)
        first = self.group.rank * len(costs)
        return entropic_cost_of_rows(costs, first, self.group.gather, self.solver)


# Function from a step to the value to minimize, and the largest marginal error of its plans (0 without).
Loss = Callable[[Step], tuple[Tensor, float]]


def plain(step: Step) -> tuple[Tensor, float]:
    """Compute the entropic cost between outputs and reports."""
    (value,), error = step.entropic_costs(step.reports)
    return value, error


def self_corrected(step: Step) -> tuple[Tensor, float]:
    """Compute `plain` minus the entropic cost between outputs and reports simulated from the model."""
    (value, correction), error = step.entropic_costs(step.reports, step.simulated())
    return value - correction, error


def likelihood(step: Step) -> tuple[Tensor, float]:
    """Compute the exact mean −log likelihood of the reports under the mixture of the outputs."""
    rows = torch.arange(len(step.reports))[step.group.share(len(step.reports))]
    device = next(iter(step.outputs.values())).device
    costs = step.cost.mixture(step.outputs, step.reports.rows(rows.to(device)))
    return step.group.total(costs.sum() / len(step.reports)), 0.0


LOSSES: dict[str, Loss] = {loss.__name__: loss for loss in (plain, self_corrected, likelihood)}
