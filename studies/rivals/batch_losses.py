r"""Losses of a step that the entropic papers compare with: two learn the noise, one is slow.

Points $x_i = G_θ(z_i)$ against reports $y_j = x_j^* + n_j$, b of each, of one column with additive
noise; p = 1 for Laplace and 2 for Gaussian noise, costs in units of the noise, as the library's are:

 - **unregularized** $W_p^p(x, y)$, by exact assignment: zero only where $P_G = P_Y$. A generator that
   is rich enough is drawn to the law of the *noisy* reports, and the more faithfully it is trained,
   the more noise it learns: one entropic term of the right weight is all that separates it from the
   recovery theorem in `privot.local.networks.cost`;
 - **Sinkhorn divergence** at the matched weight: zero only where $P_G = P_Y$ as well, since the two
   self-terms take away the very bias that removes noise;
 - **noisy Wasserstein** $W_p^p(x + n', y)$ with fresh noise of the mechanism: zero only where
   $P_G * f = P_Y$, so it has the right answer; but the empirical distance converges like $n^{-1/d}$,
   and a batch's says little in hundreds of dimensions.

Each is given to `privot.fit(release, loss=…)`. All are functions of a release: post-processing.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024), sections IV-C and IV-F.
"""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from privot.local.networks.steps import Step
from studies.rivals.divergence import sinkhorn_divergence as divergence


def unregularized(step: Step) -> tuple[Tensor, float]:
    """$W_p^p$ of outputs and reports. An assignment's marginals are exact: no error is left."""
    return _assigned(step.cost(step.outputs, step.reports)), 0.0


def sinkhorn_divergence(step: Step) -> tuple[Tensor, float]:
    """Sinkhorn divergence of outputs and reports."""
    ((name, channel),) = step.cost.channels.items()
    x, y = step.outputs[name], step.reports.values[name]
    value, results = divergence(x, y, channel.cost, 1.0, step.solver)
    return value, max(result.marginal_error for result in results)


def noisy_wasserstein(step: Step) -> tuple[Tensor, float]:
    """$W_p^p$ of the outputs, privatized once more, and the reports."""
    ((name, channel),) = step.cost.channels.items()
    noised = channel.simulate(step.outputs[name], step.rng)
    return _assigned(channel.cost(noised, step.reports.values[name])), 0.0


def _assigned(costs: Tensor) -> Tensor:
    """Mean cost (b, b) of the best assignment, differentiable."""
    rows, columns = linear_sum_assignment(costs.detach().cpu().numpy())
    return costs[torch.as_tensor(rows), torch.as_tensor(columns)].mean()
