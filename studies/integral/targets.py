r"""Known densities to learn with integral privacy: mixtures of Gaussians in one and two dimensions.

- `ring`: eight Gaussians on a circle around the origin.
- `three`: a mixture of three Gaussians on the line.
- `random_line`, `random_plane`: up to four Gaussians placed at random.
- `clients`: one of many one-dimensional mixtures with unit variances and means in [−1, 1], truncated to
  [−4, 4] (Park, Asoodeh, Lee 2024), whose optimum is known.

The text of the boosting paper that we have lost its radius, means and widths; ours are written here,
and every method is run on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from studies.common.densities import Array, Grid


@dataclass(frozen=True, eq=False)
class Mixture:
    """Isotropic Gaussians with weights, restricted to a box.

    Args:
        means: (k, d).
        stddevs: (k,).
        weights: (k,), summing to 1.
        lower: the box's lower corner: also where densities are compared.
        upper: its upper corner.
    """

    means: Array
    stddevs: Array
    weights: Array
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.means.shape[1]

    def grid(self, num_cells: int | None = None) -> Grid:
        """The grid to compare densities on: 4 000 cells a line, 300² a plane."""
        return Grid(self.lower, self.upper, num_cells or (4000 if self.dim == 1 else 300))

    def density(self, grid: Grid) -> Array:
        """The density at the grid's nodes; its integral there is 1."""
        squares = ((grid.points[:, None, :] - self.means) ** 2).sum(axis=2)
        logs = -squares / (2 * self.stddevs**2) - self.dim * np.log(self.stddevs)
        values = np.exp(logs) @ self.weights
        return values / grid.integral(values)

    def draw(self, num_records: int, rng: np.random.Generator) -> Array:
        """Records (n, d), drawn again where they fall outside of the box."""
        kept = np.empty((0, self.dim))
        while len(kept) < num_records:
            component = rng.choice(len(self.weights), num_records, p=self.weights)
            noise = rng.standard_normal((num_records, self.dim))
            x = self.means[component] + self.stddevs[component, None] * noise
            inside = ((x > self.lower) & (x < self.upper)).all(axis=1)
            kept = np.concatenate([kept, x[inside]])
        return kept[:num_records]


def ring(seed: int = 0) -> Mixture:
    """Eight Gaussians of standard deviation 0.25, evenly on a circle of radius 2."""
    angles = 2 * np.pi * np.arange(8) / 8
    means = 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return Mixture(means, np.full(8, 0.25), np.full(8, 1 / 8), (-4.0, -4.0), (4.0, 4.0))


def three(seed: int = 0) -> Mixture:
    """Three Gaussians of standard deviations 0.3, 0.2, 0.3 at −1.5, 0, 1.5, equally likely."""
    means = np.array([[-1.5], [0.0], [1.5]])
    return Mixture(means, np.array([0.3, 0.2, 0.3]), np.full(3, 1 / 3), (-5.0,), (5.0,))


def random_line(seed: int) -> Mixture:
    """Three Gaussians of standard deviation 0.3 with means uniform in [−2, 2]."""
    means = np.random.default_rng([seed, 1]).uniform(-2, 2, (3, 1))
    return Mixture(means, np.full(3, 0.3), np.full(3, 1 / 3), (-5.0,), (5.0,))


def random_plane(seed: int) -> Mixture:
    """Four Gaussians of standard deviation 0.3 with means uniform in [−2, 2]²."""
    means = np.random.default_rng([seed, 2]).uniform(-2, 2, (4, 2))
    return Mixture(means, np.full(4, 0.3), np.full(4, 1 / 4), (-4.0, -4.0), (4.0, 4.0))


TARGETS: dict[str, Callable[[int], Mixture]] = {
    "ring": ring,
    "three": three,
    "random_line": random_line,
    "random_plane": random_plane,
}


def client(index: int) -> Mixture:
    """Mixture number `index`: min(Poisson(2) + 1, 10) modes with Dirichlet(1) weights."""
    rng = np.random.default_rng([index, 3])
    modes = min(int(rng.poisson(2)) + 1, 10)
    means = rng.uniform(-1, 1, (modes, 1))
    return Mixture(means, np.ones(modes), rng.dirichlet(np.ones(modes)), (-4.0,), (4.0,))


def envelope(grid: Grid) -> tuple[Array, float]:
    """The density ∝ the largest that any client can have, and c with p ≤ c · envelope for all.

    The mixtures of truncated unit Gaussians with means in [−1, 1] have as their supremum at x the
    component of some mean there; means on a grid of 1/200 find it to 10⁻⁵.
    """
    x = grid.points[:, 0]
    means = np.linspace(-1, 1, 401)
    components = np.exp(-((x[:, None] - means) ** 2) / 2)
    components /= components.sum(axis=0) * grid.cell_volume
    largest = components.max(axis=1)
    bound = grid.integral(largest)
    return largest / bound, bound
