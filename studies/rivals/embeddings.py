r"""Features of norm 1 whose mean tells a distribution: random Fourier ones, and a network's tangents.

Both look at a point itself or, of images, at the lowest cosine frequencies alone: public linear
coordinates.

- **Fourier**: $φ(x) = (\cos W^\top x, \sin W^\top x)/\sqrt m$, W of m frequencies
  $N(0, I/ℓ^2)$; $⟨φ(x), φ(x')⟩$ approximates the Gaussian kernel of bandwidth ℓ.
- **Tangent** (DP-NTK): the gradient in all weights, before any training, of the network
  $\sum_k (A \hat h + b)_k$ with ten outputs, $\hat h$ the layer norm of $h = (W x + c)_+$, m hidden
  units, divided by its norm. Weights and biases are uniform in $±1/\sqrt{\text{inputs}}$, as in the
  authors' code. Inner products approximate a neural tangent kernel.

References:
    Rahimi, Recht, *Random features for large-scale kernel machines* (2007); Yang, Adamczewski, Li,
    Sutherland, Park, *Differentially private neural tangent kernels (DP-NTK) for privacy-preserving data
    generation* (2024).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
from scipy.fft import dct
from torch import Tensor, nn

_OUTPUTS = 10
_LAYER_NORM = 1e-5  # beside a variance, as PyTorch has it


class Embedding(Protocol):
    """Features whose norm is 1 for every point."""

    @property
    def width(self) -> int:
        """How many there are."""

    def sums(self, x: Tensor, labels: Tensor, num_labels: int) -> Tensor:
        """Sums of features (num_labels, width) of points (n, d), by label; differentiable in x."""


def cosine_basis(dim: int, low_pass: int) -> Tensor:
    """Orthonormal columns (d, p): the lowest cosine frequencies of square images, row by row."""
    side = math.isqrt(dim)
    rows = dct(np.eye(side), norm="ortho", axis=0)[:low_pass]
    return torch.from_numpy(np.kron(rows, rows).T)


class FourierFeatures:
    """Cosines and sines at random frequencies.

    Arguments:
        dim: Of a point.
        num_frequencies: m.
        bandwidth: ℓ.
        seed: Of W.
        low_pass: Of images: how many frequencies along each axis are seen; None for all of x.
    """

    def __init__(
        self,
        dim: int,
        num_frequencies: int,
        bandwidth: float,
        seed: int,
        low_pass: int | None = None,
    ) -> None:
        rng = torch.Generator().manual_seed(seed)
        basis = None if low_pass is None else cosine_basis(dim, low_pass).float()
        size = dim if basis is None else basis.shape[1]
        drawn = torch.randn((size, num_frequencies), generator=rng) / bandwidth
        self.frequencies = drawn if basis is None else basis @ drawn

    @property
    def width(self) -> int:
        """See `Embedding`."""
        return 2 * self.frequencies.shape[1]

    def __call__(self, x: Tensor) -> Tensor:
        """Features (n, 2m) of points (n, d)."""
        phase = x @ self.frequencies.to(x)
        return torch.cat([phase.cos(), phase.sin()], dim=1) / math.sqrt(phase.shape[1])

    def sums(self, x: Tensor, labels: Tensor, num_labels: int) -> Tensor:
        """See `Embedding`."""
        return x.new_zeros(num_labels, self.width).index_add(0, labels, self(x))


class TangentFeatures:
    r"""Gradients in the weights of a network as it is drawn.

    With v the column sums of A and s the deviation of h, unit j has the gradient $g_j = 1_{h_j > 0}
    (v_j − \bar v − \hat h_j \overline{v \hat h})/s$ in its bias, and $g_j x$ in its weights. A and b
    have ten equal rows of gradients $(\hat h, 1)$: one is kept, times √10, of the same inner products.

    Arguments:
        dim: Of a point.
        num_units: m.
        seed: Of the weights.
        low_pass: See `FourierFeatures`.
    """

    def __init__(self, dim: int, num_units: int, seed: int, low_pass: int | None = None) -> None:
        self.basis = None if low_pass is None else cosine_basis(dim, low_pass)
        size = dim if self.basis is None else self.basis.shape[1]
        rng = torch.Generator().manual_seed(seed)

        def uniform(rows: int, inputs: int) -> Tensor:
            return (2 * torch.rand((rows, num_units), generator=rng) - 1) / math.sqrt(inputs)

        self.weights = uniform(size + 1, size)  # the last row is c
        self.slopes = uniform(_OUTPUTS, num_units).sum(0)

    @property
    def width(self) -> int:
        """See `Embedding`: every weight's gradient, of equal ones once."""
        return self.weights.numel() + len(self.slopes) + 1

    def sums(self, x: Tensor, labels: Tensor, num_labels: int) -> Tensor:
        """See `Embedding`; a point's features are an outer product, which is never formed."""
        seen = x if self.basis is None else x @ self.basis.to(x)
        seen = torch.cat([seen, torch.ones_like(seen[:, :1])], dim=1)
        raised, slopes = (seen @ self.weights.to(x)).relu(), self.slopes.to(x)
        normed = nn.functional.layer_norm(raised, raised.shape[1:])
        deviation = (raised.var(1, correction=0, keepdim=True) + _LAYER_NORM).sqrt()
        against = (slopes * normed).mean(1, keepdim=True)
        first = (raised > 0) * (slopes - slopes.mean() - normed * against) / deviation
        last = math.sqrt(_OUTPUTS) * torch.cat([normed, torch.ones_like(normed[:, :1])], dim=1)
        square = (seen * seen).sum(1) * (first * first).sum(1) + (last * last).sum(1)
        scale = square.rsqrt()[:, None]
        first, last = first * scale, last * scale
        parts = []
        for label in range(num_labels):
            own = labels == label
            parts.append(torch.cat([(first[own].T @ seen[own]).flatten(), last[own].sum(0)]))
        return torch.stack(parts)
