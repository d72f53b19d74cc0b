r"""How far one density is from another, by quadrature on a grid of one or two dimensions.

A grid is a box with $N^d$ nodes $x_i$, each at the center of its cell, and all weights equal to the
cell's volume $w$ (the midpoint rule). For densities $p$ (the truth) and $q$ (the model):

- $\mathrm{KL}(p‖q) = w \sum_i p_i \ln(p_i/q_i)$ nats; a node with $p_i = 0$ contributes 0, one with
  $p_i > 0 = q_i$ makes it infinite;
- total variation $= \frac{w}{2} \sum_i |p_i − q_i|$;
- $\mathrm{NLL} = −w \sum_i p_i \ln q_i$, which is KL plus the entropy of $p$;
- **mode coverage** $= P(B)$, where $B = \{q > t\}$ is the smallest level set with $Q(B) ≥ κ$: how much
  of the truth lies where the model puts nearly all of its mass. Where many nodes share the level $t$
  (a clipped density has plateaus), only the share of them that is needed to reach $κ$ counts.

The midpoint rule's error is $O(N^{-2})$ for smooth densities; a kink, as clipping leaves, costs no
more than that. Mass outside of the box is not seen: `normalized` says how much it found before it
divides. Everything here needs the truth, so its results are not private.

References:
    Husain, Balle, Cranko, Nock, *Local differential privacy for sampling* (2020), section 5;
    Tolstikhin, Gelly, Bousquet, Simon-Gabriel, Schölkopf, *AdaGAN* (2017), for the coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError

Array = NDArray[np.float64]

_MAX_NODES = 20_000_000


@dataclass(frozen=True, eq=False)
class Grid:
    """Midpoints of the cells of a box: `num_cells` along each of its axes.

    Args:
        lower: the box's lower corner, one number an axis.
        upper: its upper corner.
        num_cells: cells along each axis.

    Raises:
        PrivotError: if the corners do not make a box, or the grid has too many nodes.

    Examples:
        >>> grid = Grid((0.0,), (1.0,), 4)
        >>> grid.points[:, 0]
        array([0.125, 0.375, 0.625, 0.875])
    """

    lower: Sequence[float]
    upper: Sequence[float]
    num_cells: int

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper) or not all(
            low < high for low, high in zip(self.lower, self.upper, strict=True)
        ):
            raise PrivotError(
                f"lower is {self.lower!r} and upper {self.upper!r}: "
                "give as many of each, every lower one below its upper one"
            )
        if not 1 <= self.num_cells ** len(self.lower) <= _MAX_NODES:
            raise PrivotError(
                f"num_cells is {self.num_cells} in {len(self.lower)} dimensions: "
                f"keep the nodes between 1 and {_MAX_NODES}"
            )

    @property
    def dim(self) -> int:
        """Number of axes."""
        return len(self.lower)

    @cached_property
    def cell_volume(self) -> float:
        """The weight of every node."""
        sides = np.subtract(self.upper, self.lower) / self.num_cells
        return float(np.prod(sides))

    @cached_property
    def axes(self) -> tuple[Array, ...]:
        """The nodes' coordinates along each axis."""
        steps = (np.arange(self.num_cells) + 0.5) / self.num_cells
        return tuple(
            low + (high - low) * steps for low, high in zip(self.lower, self.upper, strict=True)
        )

    @cached_property
    def points(self) -> Array:
        """The nodes (N^d, d), the last axis varying fastest."""
        mesh = np.meshgrid(*self.axes, indexing="ij")
        return np.stack([axis.ravel() for axis in mesh], axis=1)

    def integral(self, values: Array) -> float:
        """The integral over the box of a function with these values at the nodes."""
        return float(values.sum() * self.cell_volume)

    def normalized(self, log_density: Array) -> tuple[Array, float]:
        """The density (its integral is 1 on the grid), and the log of what it was divided by.

        Raises:
            PrivotError: if the density is zero everywhere on the grid, or not a number.
        """
        highest = float(np.max(log_density))
        if not np.isfinite(highest):
            raise PrivotError(
                f"the largest log density on the grid is {highest}: put the box where the mass is"
            )
        values = np.exp(log_density - highest)
        total = self.integral(values)
        return values / total, highest + float(np.log(total))


def negative_log_likelihood(grid: Grid, p: Array, q: Array) -> float:
    """$−∫ p \\ln q$ in nats; infinite where the model excludes what the truth allows."""
    seen = p > 0
    with np.errstate(divide="ignore"):
        return -grid.integral(p[seen] * np.log(q[seen]))


def kullback_leibler(grid: Grid, p: Array, q: Array) -> float:
    """KL(p‖q) of the truth from the model, in nats.

    Examples:
        >>> grid = Grid((0.0,), (1.0,), 2)
        >>> round(kullback_leibler(grid, np.array([2.0, 0.0]), np.array([1.0, 1.0])), 6)
        0.693147
    """
    seen = p > 0
    with np.errstate(divide="ignore"):
        return grid.integral(p[seen] * (np.log(p[seen]) - np.log(q[seen])))


def variation_distance(grid: Grid, p: Array, q: Array) -> float:
    """Total variation of two densities: the largest difference of their probabilities of any set."""
    return grid.integral(np.abs(p - q)) / 2


def mode_coverage(grid: Grid, p: Array, q: Array, level: float = 0.95) -> float:
    """P(B) for the smallest level set B of the model with Q(B) ≥ `level`.

    Raises:
        PrivotError: if the level is not between 0 and 1.

    Examples:
        Half of the model's mass is where the truth has three quarters of its own:

        >>> grid = Grid((0.0,), (2.0,), 4)
        >>> truth, model = np.array([0.75, 0.75, 0.25, 0.25]), np.array([0.6, 0.4, 0.6, 0.4])
        >>> round(mode_coverage(grid, truth, model, 0.6), 12)
        0.5
    """
    if not 0 < level < 1:
        raise PrivotError(f"level is {level}: the share of the model's mass, between 0 and 1")
    order = np.argsort(-q, kind="stable")
    model, truth = q[order], p[order]
    below = np.cumsum(model) * grid.cell_volume
    last = min(int(np.searchsorted(below, level)), len(q) - 1)
    # All nodes of the level at which κ is reached, taken in the same proportion.
    start = int(np.searchsorted(-model, -model[last], side="left"))
    stop = int(np.searchsorted(-model, -model[last], side="right"))
    reached = below[start - 1] if start else 0.0
    at_level = below[stop - 1] - reached
    share = min(max((level - reached) / at_level, 0.0), 1.0) if at_level > 0 else 1.0
    inside = truth[:start].sum() + share * truth[start:stop].sum()
    return float(inside * grid.cell_volume)
