r"""Features of norm 1 whose mean tells a distribution: random Fourier ones, and a network's tangents.

Both look at a point itself or, of images, at the lowest cosine frequencies alone: public linear
coordinates.

- **Fourier**: $φ(x) = (\cos W^\top x, \sin W^\top x)/\sqrt m$, W of m frequencies
  $N(0, I/ℓ^2)$; $⟨φ(x), φ(x')⟩$ approximates the Gaussian kernel of bandwidth ℓ.
- **Tangent** (DP-NTK): the gradient in all weights, before any training, of a network $\sum_j a_j
  (w_j^\top \bar x)_+$ with m hidden units, $a_j = ±1$, $w_j ∼ N(0, I)$ and $\bar x = (x, 1)$, divided by
  its norm: unit j has $a_j 1_{w_j^\top \bar x > 0} \bar x$ and $(w_j^\top \bar x)_+$. Inner products
  approximate the neural tangent kernel's.

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
from torch import Tensor


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
    """Gradients in the weights of a network as it is drawn.

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
        self.weights = torch.randn((size + 1, num_units), generator=rng)
        self.signs = 2.0 * torch.randint(2, (num_units,), generator=rng) - 1.0

    @property
    def width(self) -> int:
        """See `Embedding`: every weight's gradient."""
        return self.weights.numel() + len(self.signs)

    def sums(self, x: Tensor, labels: Tensor, num_labels: int) -> Tensor:
        """See `Embedding`; a point's features are an outer product, which is never formed."""
        seen = x if self.basis is None else x @ self.basis.to(x)
        seen = torch.cat([seen, torch.ones_like(seen[:, :1])], dim=1)
        raised = seen @ self.weights.to(x)
        on, raised = (raised > 0).to(x), raised.relu()
        square = (seen * seen).sum(1) * on.sum(1) + (raised * raised).sum(1)
        scale = square.clamp_min(1e-12).rsqrt()[:, None]
        first, second = on * self.signs.to(x) * scale, raised * scale
        parts = []
        for label in range(num_labels):
            own = labels == label
            parts.append(torch.cat([(first[own].T @ seen[own]).flatten(), second[own].sum(0)]))
        return torch.stack(parts)
