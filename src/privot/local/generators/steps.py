r"""A step of training: the minibatch of reports it looks at, and the loss that it makes small.

**In memory** every step draws reports uniformly, with replacement.

**From disk** an epoch passes over all row groups in a random order, a *window* of them at a time; the
window's reports are put in random order and handed out as batches. A release is written in random order
(`privot.release.streaming.publishing`), so its row groups are uniform samples of it, and batches are as
good as uniform ones, without replacement; of files in another order, a batch sees the window's row
groups only. What a window holds beyond full batches is left out of that epoch, another part each time.

The k-th batch is a function of the seed and k: a resumed run reads one window and goes on bit for bit.
One window and a few batches are in memory, whatever the release holds; a thread reads ahead.

**A loss** is a function of a `Step` (the generator's outputs, a batch of reports, their cost −log f) and
of nothing else: it can see no record. `plain` is the transport cost at the matched entropic weight,
whose minimizer is the law of the *clean* records (`privot.local.likelihood.cost`); its gradient is that
of $⟨π, C⟩$ with the plan held fixed (algorithm 1 of Reshetova et al.).

**Mini-batch bias.** That theorem is about distributions; a plan between b points and b points can match
noise that only looks like structure, and shrinks what is learned: in 50 dimensions with noise of
standard deviation 1 the learned spread at b = 400 is half the truth. `self_corrected` subtracts the
gradient that the model would receive from its own privatized samples,

$$ g = g_b(θ; Y) − g_b(θ; Y'), \qquad Y' = M(\text{stopgrad } G_θ(z')) , $$

with the same generated batch in both terms. When $P_G = P_X$, Y′ has the law of Y, so $E\,g = 0$ for
every b, dimension and mechanism; as b → ∞ the second term vanishes. In a few dimensions the bias is
small and the second plan only adds variance. (z′ must be fresh: privatizing the batch's own points
again would bring the bias back.)

**Likelihood.** For columns that are all reported as codes, outputs are distributions, and a batch's b
latents make a mixture whose exact likelihood can be followed,

$$ −\frac1m \sum_j \log \frac1b \sum_i e^{−C_{ij}} , $$

which is the transport problem with its first marginal left free: no plan need be solved for. The b
latents of a step are then all the classes that it may use: 200 of them keep a network from fitting the
noise, where more do not.

**Any other loss** is a function of the same kind, given to `privot.fit(release, loss=…)`.

Everything is a function of the release, hence post-processing; the seed is no secret.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.generators import Network
from privot.local.likelihood.cost import LikelihoodCost, Reports
from privot.local.likelihood.heads import Outputs
from privot.release import Release
from privot.release.reports.rows import ReportTable
from privot.training.parallel import ALONE, Group
from privot.transport import SinkhornResult, SinkhornSolver, entropic_cost
from privot.transport.sinkhorn.solver import entropic_cost_of_rows

# A release in files beyond this many reports is not read into memory.
_MOST_IN_MEMORY = 2**20
_WINDOW_BYTES = 2**25
_BLOCK_BYTES = 2**21


class Minibatches(ABC):
    """Where a step's reports come from, and the latents that stand for the people behind them."""

    @abstractmethod
    def draw(self, rng: torch.Generator) -> Reports:
        """The next batch."""

    def latent(self, generator: Network, num_rows: int, rng: torch.Generator) -> Tensor:
        """Latents (num_rows, d) of people like those of the last batch."""
        return generator.draw_latent(num_rows, rng)

    def seek(self, step: int) -> None:  # noqa: B027  # batches that the run's generator draws are there
        """Go to the batch of a step, counted from 0."""


def minibatches(
    release: Release, cost: LikelihoodCost, size: int, seed: int, device: torch.device
) -> Minibatches:
    """Batches of `size` reports, from memory unless the release is in files and large."""
    if release.rows.in_memory or len(release) <= _MOST_IN_MEMORY:
        return FromMemory(release, cost, size, device)
    return FromDisk(release, cost, size, seed, device)


class FromMemory(Minibatches):
    """Batches drawn uniformly with replacement, by the run's generator."""

    def __init__(
        self, release: Release, cost: LikelihoodCost, size: int, device: torch.device
    ) -> None:
        self._reports, self._size, self._device = cost.read(release, device), size, device

    def draw(self, rng: torch.Generator) -> Reports:
        """See `Minibatches`."""
        index = torch.randint(len(self._reports), (self._size,), generator=rng)
        return self._reports.rows(index.to(self._device))


class FromDisk(Minibatches):
    """Batches from windows of row groups; see the module.

    Arguments:
        release: Reports in files.
        cost: Reads them.
        size: Reports a batch.
        seed: Of the order.
        device: Where batches go.
        window_bytes: What a window may hold.

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
                f"batch_size {size} is more than the release's {len(release)} reports"
            )
        self._release, self._cost, self._size = release, cost, size
        self._seed, self._device = seed, device
        self._groups = release.rows.row_groups()
        row_bytes = max(1, release.rows.row_bytes())
        self._window_rows = max(4 * size, window_bytes // row_bytes)
        self._block = max(1, _BLOCK_BYTES // row_bytes // size) * size
        self._thread = ThreadPoolExecutor(1)
        self.seek(0)

    def seek(self, step: int) -> None:
        """See `Minibatches`."""
        self._blocks = self._from(step)
        self._ahead: Future[Reports] = self._thread.submit(next, self._blocks)
        self._held, self._place = self._next_block(), 0

    def draw(self, rng: torch.Generator) -> Reports:
        """See `Minibatches`; the run's generator is not used."""
        if self._place == len(self._held):
            self._held, self._place = self._next_block(), 0
        rows = torch.arange(self._place, self._place + self._size)
        self._place += self._size
        return self._held.rows(rows.to(self._device))

    def _next_block(self) -> Reports:
        block = self._ahead.result()
        self._ahead = self._thread.submit(next, self._blocks)
        return block

    def _from(self, step: int) -> Iterator[Reports]:
        """Blocks of batches from the one of a step on, forever."""
        epoch, left = 0, step
        while True:
            for number, groups in enumerate(self._windows(epoch)):
                batches = sum(self._groups[group].num_rows for group in groups) // self._size
                if left >= batches:
                    left -= batches
                    continue
                yield from self._window(epoch, number, groups, left * self._size)
                left = 0
            epoch += 1

    def _windows(self, epoch: int) -> list[list[int]]:
        """Row groups of each window of an epoch; the last window is not smaller than a batch."""
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._groups)).tolist()
        ends = accumulate(self._groups[group].num_rows for group in order)
        windows: dict[int, list[int]] = {}
        for group, end in zip(order, ends, strict=True):
            windows.setdefault((end - 1) // self._window_rows, []).append(group)
        return list(windows.values())

    def _window(self, epoch: int, number: int, groups: list[int], start: int) -> Iterator[Reports]:
        tables = [self._release.rows.read(self._groups[group]) for group in groups]
        table = pa.concat_tables(tables).combine_chunks()
        order = np.random.default_rng([self._seed, epoch, number]).permutation(table.num_rows)
        full = table.num_rows // self._size * self._size
        for first in range(start, full, self._block):
            rows = table.take(pa.array(order[first : min(full, first + self._block)]))
            block = Release(ReportTable.of(rows), self._release.randomizer)
            yield self._cost.read(block, self._device)


@dataclass(frozen=True, eq=False)
class Step:
    """What a loss may look at.

    Arguments:
        outputs: The head's outputs of b fresh latents by column, differentiable (`LikelihoodCost` says
            what they mean); in a group of processes this one's share, but all of them for `likelihood`.
        reports: Of m people, drawn from the release.
        cost: −log f of any outputs and reports; `cost.simulate` privatizes outputs.
        fresh: Draws b more outputs.
        solver: Of transport problems, as the settings say.
        rng: The run's random generator.
        group: The processes that train together.
    """

    outputs: Outputs
    reports: Reports
    cost: LikelihoodCost
    fresh: Callable[[], Outputs]
    solver: SinkhornSolver
    rng: torch.Generator
    group: Group = ALONE

    @torch.no_grad()
    def echo(self) -> Reports:
        """Reports of the model's own, of fresh outputs; they know no gradient."""
        return self.cost.simulate(self.fresh(), self.reports, self.rng)

    def entropic_costs(self, *batches: Reports) -> tuple[list[Tensor], float]:
        """Entropic cost of the outputs and each batch of m reports, and the largest marginal error."""
        # One matrix for all: they share the outputs, and so the product of their gradient.
        costs = self.cost(self.outputs, Reports.joined(batches)).split(len(self.reports), dim=1)
        solved = [self._entropic_cost(part.contiguous()) for part in costs]
        return [value for value, _ in solved], max(result.marginal_error for _, result in solved)

    def _entropic_cost(self, costs: Tensor) -> tuple[Tensor, SinkhornResult]:
        if self.group.size == 1:
            return entropic_cost(costs, solver=self.solver)
        first = self.group.rank * len(costs)
        return entropic_cost_of_rows(costs, first, self.group.gather, self.solver)


# The value to make small, and the largest marginal error of a plan that it solved for, or 0.
Loss = Callable[[Step], tuple[Tensor, float]]


def plain(step: Step) -> tuple[Tensor, float]:
    """Entropic cost of outputs and reports."""
    (value,), error = step.entropic_costs(step.reports)
    return value, error


def self_corrected(step: Step) -> tuple[Tensor, float]:
    """The same, less that of outputs and the model's own reports."""
    (value, correction), error = step.entropic_costs(step.reports, step.echo())
    return value - correction, error


def likelihood(step: Step) -> tuple[Tensor, float]:
    """−log of the batch's mixture, an exact likelihood: no marginal is left to fit."""
    own = torch.arange(len(step.reports))[step.group.share(len(step.reports))]
    device = next(iter(step.outputs.values())).device
    costs = step.cost.mixture(step.outputs, step.reports.rows(own.to(device)))
    return step.group.total(costs.sum() / len(step.reports)), 0.0


LOSSES: dict[str, Loss] = {loss.__name__: loss for loss in (plain, self_corrected, likelihood)}
