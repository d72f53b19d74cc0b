r"""An entropic problem between two clouds of few dimensions, and what a solver asks of its kernel.

Costs are not stored. They enter through sums over the kernel $e^{-c(x_i,y_j)/λ}$ alone, which
`laplace_kernel` and `gaussian_kernel` work out without the matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.core.errors import PrivotError
from studies.full_batch.gaussian_kernel import GaussianKernel
from studies.full_batch.laplace_kernel import LaplaceKernel

Array = NDArray[np.float64]
Ground = Literal["manhattan", "squared_euclidean"]


class Kernel(Protocol):
    """Log-sums over the kernel of two clouds x (n, d) and y (m, d)."""

    @property
    def start(self) -> Array:
        """Potentials of y over λ (m,) to start from."""

    @property
    def magnitude(self) -> float:
        """Largest exponent that is rounded on the way."""

    def at_x(self, h: Array) -> Array:
        """$\\log Σ_j e^{h_j - c_{ij}/λ}$ (n,)."""

    def at_y(self, h: Array) -> Array:
        """$\\log Σ_i e^{h_i - c_{ij}/λ}$ (m,)."""

    def slope_x(self, h: Array) -> Array:
        """Mean of $∇_x c(x_i, y)$ (n, d) over the terms of the sum at $x_i$."""

    def slope_y(self, h: Array) -> Array:
        """Mean of $∇_y c(x, y_j)$ (m, d) over the terms of the sum at $y_j$."""


@dataclass(frozen=True)
class Clouds:
    r"""Minimize $⟨π, C⟩ + λ\, \mathrm{KL}(π ‖ a ⊗ b)$, C being the costs between points x and y.

    Arguments:
        x: Points (n, d), d ∈ {1, 2}, float64.
        y: Points (m, d).
        a: Probabilities (n,) of x.
        b: Probabilities (m,) of y.
        ground: `"manhattan"` or `"squared_euclidean"`.
        reg: Entropic weight λ > 0, in units of the cost.
    """

    x: Array
    y: Array
    a: Array
    b: Array
    ground: Ground
    reg: float

    @classmethod
    def between(
        cls,
        x: Tensor,
        y: Tensor,
        ground: Ground,
        reg: float,
        weights_x: Tensor | None = None,
        weights_y: Tensor | None = None,
    ) -> Clouds:
        """Clouds of tensors; uniform where no weights are given.

        Raises:
            PrivotError: Shapes, values, weights, ground or reg cannot be used.
        """
        if ground not in ("manhattan", "squared_euclidean"):
            raise PrivotError(
                f"ground {ground!r} is not known: use 'manhattan' or 'squared_euclidean'"
            )
        if not 0 < reg < np.inf:
            raise PrivotError(f"reg {reg} is not a positive number: give the entropic weight")
        x_points, y_points = points_of("x", x), points_of("y", y)
        if x.shape[1] != y.shape[1]:
            raise PrivotError(
                f"x has {x.shape[1]} coordinates and y has {y.shape[1]}: give points of one space"
            )
        a = _weights("weights_x", weights_x, len(x))
        b = _weights("weights_y", weights_y, len(y))
        return cls(x_points, y_points, a, b, ground, reg)

    def kernel(self, accuracy: float) -> Kernel:
        """The kernel, with sums exact (ℓ1) or of this relative accuracy (squared Euclidean)."""
        if self.ground == "manhattan":
            return LaplaceKernel(self.x, self.y, self.reg)
        return GaussianKernel(self.x, self.y, self.reg, accuracy)


def points_of(name: str, points: Tensor) -> Array:
    """Points (n, d) in float64 on the CPU, checked."""
    if points.ndim != 2 or points.shape[1] not in (1, 2) or len(points) == 0:
        raise PrivotError(
            f"{name} has shape {tuple(points.shape)}: full batches take points (n, 1) or (n, 2); "
            "for more dimensions, solve mini-batches"
        )
    if not bool(torch.isfinite(points).all()):
        raise PrivotError(f"{name} holds numbers that are not finite: leave such points out")
    return _numpy(points)


def _weights(name: str, given: Tensor | None, size: int) -> Array:
    if given is None:
        return np.full(size, 1 / size)
    if given.shape != (size,):
        raise PrivotError(f"{name} has shape {tuple(given.shape)}: give ({size},)")
    weights = _numpy(given)
    if not (weights > 0).all() or abs(weights.sum() - 1) > 1e-4:
        raise PrivotError(
            f"{name} adds up to {weights.sum():.6g}, smallest {weights.min()}"
            ": give positive probabilities, and leave points of no weight out"
        )
    return np.asarray(weights / weights.sum())


def _numpy(tensor: Tensor) -> Array:
    return np.asarray(tensor.detach().cpu().double().numpy())
