"""An entropic optimal transport problem: costs, weights, and the strength of regularization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.transport.costs.ground import manhattan, squared_euclidean

Ground = Literal["manhattan", "squared_euclidean"]
_GROUNDS = {"manhattan": manhattan, "squared_euclidean": squared_euclidean}

# Largest rounding error of a cost, in units of reg, that single precision may leave.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Problem:
    r"""Minimize $⟨π, C⟩ + λ\, \mathrm{KL}(π ‖ a ⊗ b)$ over couplings π of a and b.

    The KL term of a coupling of a and b is its mutual information.

    Arguments:
        cost: Ground costs C, shape (n, m), finite.
        reg: Entropic weight λ > 0, in units of the cost.
        weights_x: Probabilities a (n,) of the rows; uniform by default.
        weights_y: Probabilities b (m,) of the columns; uniform by default.
    """

    cost: Tensor
    reg: float = 1.0
    weights_x: Tensor | None = None
    weights_y: Tensor | None = None

    def __post_init__(self) -> None:
        if self.cost.ndim != 2 or 0 in self.cost.shape:
            raise PrivotError(
                f"cost has shape {tuple(self.cost.shape)}: give a matrix with at least one entry"
            )
        if not self.reg > 0:
            raise PrivotError(f"reg {self.reg} is not positive: give the entropic weight, > 0")
        for name, weights, size in (
            ("weights_x", self.weights_x, self.cost.shape[0]),
            ("weights_y", self.weights_y, self.cost.shape[1]),
        ):
            if weights is None:
                continue
            if weights.shape != (size,):
                raise PrivotError(f"{name} has shape {tuple(weights.shape)}: give ({size},)")
            if not bool((weights > 0).all()) or abs(float(weights.sum()) - 1) > 1e-4:
                raise PrivotError(
                    f"{name} adds up to {float(weights.sum()):.6g}, smallest {float(weights.min())}"
                    ": give positive probabilities, and leave points of no weight out"
                )

    @classmethod
    def between(
        cls,
        x: Tensor,
        y: Tensor,
        ground: Ground = "squared_euclidean",
        reg: float = 1.0,
        weights_x: Tensor | None = None,
        weights_y: Tensor | None = None,
    ) -> Self:
        """The problem between points x (n, d) and y (m, d), without gradients.

        Costs are worked out in double precision where rounding in single precision would change the
        plan, which happens when they exceed reg some ten thousand times.
        """
        if ground not in _GROUNDS:
            raise PrivotError(f"ground {ground!r} is not known: use one of {', '.join(_GROUNDS)}")
        x, y = x.detach(), y.detach()
        cost = _GROUNDS[ground](x, y)
        if cost.dtype == torch.float32:
            rounding = torch.finfo(torch.float32).eps * float(_magnitude(x, y, ground))
            # Overflow has no magnitude that could be trusted.
            if not rounding <= _ROUNDING * reg:
                cost = _GROUNDS[ground](x.double(), y.double())
        return cls(cost, reg, weights_x, weights_y)

    @property
    def a(self) -> Tensor:
        """Row probabilities (n,)."""
        return _uniform(self.cost, 0) if self.weights_x is None else self.weights_x

    @property
    def b(self) -> Tensor:
        """Column probabilities (m,)."""
        return _uniform(self.cost, 1) if self.weights_y is None else self.weights_y


def _uniform(cost: Tensor, dim: int) -> Tensor:
    size = cost.shape[dim]
    return torch.full((size,), 1.0 / size, dtype=cost.dtype, device=cost.device)


def _magnitude(x: Tensor, y: Tensor, ground: Ground) -> Tensor:
    """Largest number that the sum of a cost may hold."""
    center = y.mean(dim=0, keepdim=True)
    power = 1 if ground == "manhattan" else 2
    largest = [(points - center).abs().pow(power).sum(dim=1).amax() for points in (x, y)]
    return power * (largest[0] + largest[1])
