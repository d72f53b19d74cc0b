r"""The smoothed sliced Wasserstein loss, on noisy slices.

With noise N(0, σ²) on the slices of both sides, the mean over directions of W_q^q between them is the
sliced Wasserstein distance of the two laws convolved with N(0, σ²I): a metric for every σ ≥ 0
(Rakotomamonjy, Ralaivola 2021, theorem 3). The private side is a constant; gradient flows to the
generated side alone, through the sort: optimal transport on the line matches ranks, and the matching is
constant where no two points tie.

**Mean first.** For q = 2 the loss splits exactly,

$$ W_2^2(P, Q) = (m_P - m_Q)^2 + W_2^2(P - m_P, Q - m_Q), $$

and averaging the first part over uniform directions gives ‖m_P − m_Q‖²/d of the laws in R^d. Each part
may use a different estimate: `spread_loss` is the second part, of one release; the first is far better
estimated from all releases so far (`privot.sliced.releases.pooled`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.transport.exact import transport_cost_1d


def smoothed_sliced_loss(
    private: Tensor, generated: Tensor, stddev: float, q: int, rng: torch.Generator
) -> Tensor:
    """Mean over k slices of W_q^q between `private` (n, k), noisy, and `generated` (m, k) plus noise.

    Arguments:
        private: Released slices; constants.
        generated: Projections of what the generator made, along the same directions.
        stddev: Standard deviation σ of the noise that the released slices carry.
        q: 1 or 2.
        rng: Of the generated side's noise.

    Examples:
        >>> x = torch.tensor([[0.0], [1.0]])
        >>> smoothed_sliced_loss(x + 2, x, 0.0, 2, torch.Generator())
        tensor(4.)
    """
    if q not in (1, 2):
        raise PrivotError(f"q is {q}: the sliced loss is made for 1 and 2")
    noise = torch.randn(generated.shape, generator=rng, dtype=generated.dtype)
    noisy = generated + stddev * noise
    if len(private) != len(generated):
        return transport_cost_1d(noisy, private.detach(), q).mean()
    # Sorting contiguous rows is several times faster than sorting columns.
    target = np.sort(private.detach().numpy().T, axis=1)
    columns = noisy.T.contiguous()
    order = torch.from_numpy(np.argsort(columns.detach().numpy(), axis=1))
    gaps = columns.gather(1, order) - torch.from_numpy(target)
    return gaps.square().mean() if q == 2 else gaps.abs().mean()


def spread_loss(private: Tensor, generated: Tensor, stddev: float, rng: torch.Generator) -> Tensor:
    """Mean over slices of W_2² between the two sides, each moved to mean 0."""
    centered = private - private.mean(dim=0)
    return smoothed_sliced_loss(centered, generated - generated.mean(dim=0), stddev, 2, rng)
