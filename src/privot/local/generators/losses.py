r"""Losses of one step: what a generator is trained to make small.

A loss is a function of a `Step` (the generator's outputs, a batch of reports, their cost −log f) and of
nothing else: it can see no record. `plain` is the transport cost at the matched entropic weight, whose
minimizer is the law of the *clean* records (`privot.local.likelihood.cost`); its gradient is that of
$⟨π, C⟩$ with the plan held fixed (algorithm 1 of Reshetova et al.).

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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from privot.local.likelihood.cost import LikelihoodCost, Reports
from privot.local.likelihood.heads import Outputs
from privot.training.parallel import ALONE, Group
from privot.transport import SinkhornResult, SinkhornSolver, entropic_cost
from privot.transport.sinkhorn.solver import entropic_cost_of_rows


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
