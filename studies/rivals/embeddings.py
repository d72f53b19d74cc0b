r"""Features of norm 1 whose mean tells a distribution: random Fourier ones, and a network's tangents.

Both look at public linear coordinates of a point: itself, or of images the lowest cosine frequencies,
each times $\sqrt{1 + f^2}$ where these are to weigh alike.

- **Fourier**: $φ(x) = (\cos W^\top x, \sin W^\top x)/\sqrt m$, W of m frequencies
  $N(0, I/ℓ^2)$; $⟨φ(x), φ(x')⟩$ approximates the Gaussian kernel of bandwidth ℓ.
- **Tangent** (DP-NTK): the gradient in all weights, before
  any training, of a network $\sum_j a_j (w_j^\top \bar x)_+$ with m hidden units, $a_j = ±1$,
  $w_j ∼ N(0, I)$ and $\bar x = (x, 1)$, divided by its norm: unit j has $a_j 1_{w_j^\top \bar x > 0} \bar x$ and
  $(w_j^\top \bar x)_+$. Inner products approximate the neural tangent kernel's.

References:
    Rahimi, Recht, *Random features for large-scale kernel machines* (2007); Yang, Adamczewski, Li,
    Sutherland, Park, *Differentially private neural tangent kernels (DP-NTK) for privacy-preserving data
    generation* (2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Coordinates:
    """What features see of a point (n, d).

    Arguments:
        low_pass: Of square images: how many cosine frequencies along each axis; None for all of x.
        even: Whether coordinates of high frequencies, which are small in images, are made larger.
    """

    low_pass: int | None = None
    even: bool = False

    def basis(self, dim: int) -> Tensor:
        """Columns (d, p): coordinates are x times it."""
        if self.low_pass is None:
            return torch.eye(dim, dtype=torch.float64)
        side = math.isqrt(dim)
        rows = dct(np.eye(side), norm="ortho", axis=0)[: self.low_pass]
        frequencies = np.add.outer(np.arange(len(rows)) ** 2, np.arange(len(rows)) ** 2).ravel()
        scale = np.sqrt(1.0 + frequencies) if self.even else np.ones(len(frequencies))
        return torch.from_numpy(np.kron(rows, rows).T * scale)


class FourierFeatures:
    """Cosines and sines at random frequencies.

    Arguments:
        dim: Of a point.
        num_frequencies: m.
        bandwidth: ℓ, in the units of the coordinates.
        seed: Of W.
        coordinates: What is seen of a point.
    """

    def __init__(
        self,
        dim: int,
        num_frequencies: int,
        bandwidth: float,
        seed: int,
        coordinates: Coordinates | None = None,
    ) -> None:
        basis = (coordinates or Coordinates()).basis(dim)
        rng = torch.Generator().manual_seed(seed)
        drawn = torch.randn((basis.shape[1], num_frequencies), generator=rng)
        self.frequencies = (basis @ drawn.double() / bandwidth).float()

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
        coordinates: What is seen of a point.
    """

    def __init__(
        self, dim: int, num_units: int, seed: int, coordinates: Coordinates | None = None
    ) -> None:
        seen = coordinates or Coordinates()
        self.basis = seen.basis(dim) if seen.low_pass is not None else None
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
