r"""A start that is no saddle: the covariance of the reports, minus that of the noise.

A generator whose outputs all equal the mean image is a stationary point of every loss here: equal
outputs get equal gradients. Small random weights start next to it, and under strong noise leave it
slowly or never. But second moments of the clean images can be read off the reports at once,

$$ \mathrm{Cov}(X) = \mathrm{Cov}(Y) − σ^2 I , $$

and eigenvalues of Cov(Y) above the edge $σ^2 (1 + \sqrt{d/n})^2$ of pure noise's are signal (Marchenko
and Pastur; Baik, Ben Arous, Péché). The last layer of the MLP is set so that its outputs have, to first
order, the mean and the leading part of that covariance: probabilistic principal components, bent by the
network.

Privacy: a function of the reports, hence post-processing.

References:
    Tipping, Bishop, *Probabilistic principal component analysis* (1999).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from privot.generators import MLP, Bounded

_LATENTS = 2000
_MOST = 50
_SATURATED = 0.9


@torch.no_grad()
def start_at_covariance(generator: Bounded, reports: Tensor, noise_stddev: float, seed: int) -> int:
    """Set the last layer from the reports' covariance; how many components stood out of the noise.

    Arguments:
        generator: An MLP behind tanh, with the mean report as its offset.
        reports: Reports (n, d) in the space of the generator's outputs.
        noise_stddev: σ of a coordinate's independent noise.
        seed: Of the latents whose hidden features are whitened.
    """
    network: MLP = generator.network
    last = network.layers[-1]
    assert isinstance(last, nn.Linear)
    components = leading_components(reports, noise_stddev)[:, : min(_MOST, last.in_features)]
    count = components.shape[1]
    latent = generator.draw_latent(_LATENTS, torch.Generator().manual_seed(seed))
    hidden = network.layers[:-1](latent)
    center = hidden.mean(dim=0)
    _, deviations, axes = torch.linalg.svd(hidden - center, full_matrices=False)
    whiten = axes[:count] / deviations[:count, None] * (_LATENTS - 1) ** 0.5
    # Of tanh at the start; bounded away from 0, or dark pixels would start with huge weights.
    slope = 1 - generator.offset.tanh().clamp(-_SATURATED, _SATURATED) ** 2
    last.weight.copy_((components / slope[:, None]) @ whiten)
    last.bias.copy_(-last.weight @ center)
    return count


def leading_components(reports: Tensor, noise_stddev: float) -> Tensor:
    """Axes (d, k) of the clean covariance, each as long as its deviation, longest first.

    Examples:
        >>> rng = torch.Generator().manual_seed(0)
        >>> clean = torch.randn(20_000, 1, generator=rng) * torch.tensor([3.0, 4.0, 0.0])
        >>> axes = leading_components(clean + torch.randn(20_000, 3, generator=rng), 1.0)
        >>> axes.shape, round(float(axes.norm()), 1)
        (torch.Size([3, 1]), 5.0)
    """
    n, d = reports.shape
    centered = reports - reports.mean(dim=0)
    values, vectors = torch.linalg.eigh((centered.T @ centered / n).double())
    edge = noise_stddev**2 * (1 + (d / n) ** 0.5) ** 2
    above = values > edge
    lengths = (values[above] - noise_stddev**2).sqrt()
    return (vectors[:, above] * lengths).flip(1).to(reports)
