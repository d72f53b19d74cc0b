r"""Public reference densities $q_0$: where every model of this package starts, and never ends far from.

A model's density is $q ∝ q_0 e^{s}$ with a tilt $s$ between public constants, so $q_0$ decides what
can be drawn at all: it must cover the data, and it must not come from it. Where $q_0$ is small
against the truth, ε is spent on making up for it.

- `StandardNormal(dim)`, `TruncatedNormal(lower, upper)`, `UniformBox(lower, upper)`;
- `ProductReference(marginals)`: any product of [marginals][privot.integral.densities.marginals], such as
  `privot.integral.records` makes of a schema;
- `CustomReference`: your own sampler and log density. Its sampler is trusted to draw from nothing but
  the generator it is given.

**Who sees what.** References are public. They see no data but in `contains` and `log_density`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from privot.errors import PrivotError
from privot.integral.densities.marginals import Bools, Marginal, Normal, Uniform
from privot.integral.densities.secure import Floats, Generator


class Reference(Protocol):
    """A public density on R^dim (or, coordinates being discrete, on a part of it)."""

    @property
    def dim(self) -> int:
        """Number of coordinates."""

    @property
    def marginals(self) -> tuple[Marginal, ...] | None:
        """The coordinates' laws if they are independent, else None."""

    def sample(self, n: int, generator: Generator, /) -> Floats:
        """Independent draws (n, dim), from nothing but the generator."""

    def log_density(self, x: Floats, /) -> Floats:
        """Log density (n,) of points (n, dim); −∞ outside the support."""

    def contains(self, x: Floats, /) -> Bools:
        """Whether points (n, dim) lie in the support."""

    def features(self, x: Floats, /) -> Floats:
        """What a classifier sees of points: (n, k), of order 1."""

    def to_dict(self) -> list[dict[str, Any]] | None:
        """Plain values of its marginals, for `marginal_from_dict`; None if there are none."""


class ProductReference:
    """Independent coordinates with public marginals.

    Examples:
        >>> from privot.integral.densities.marginals import Categorical, Uniform
        >>> reference = ProductReference((Uniform(0.0, 10.0), Categorical((0.25, 0.75))))
        >>> reference.log_density(np.array([[5.0, 1.0]])).round(4).tolist()
        [-2.5903]
    """

    def __init__(self, marginals: Sequence[Marginal]) -> None:
        if not marginals:
            raise PrivotError("marginals are empty: give one a coordinate")
        self.marginals: tuple[Marginal, ...] = tuple(marginals)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.marginals)

    def sample(self, n: int, generator: Generator, /) -> Floats:
        """Draws (n, dim)."""
        return np.stack([marginal.sample(n, generator) for marginal in self.marginals], axis=1)

    def log_density(self, x: Floats, /) -> Floats:
        """Sum of the marginals' log densities."""
        x = require_points(x, self.dim)
        parts = [m.log_density(x[:, j]) for j, m in enumerate(self.marginals)]
        return np.asarray(np.sum(parts, axis=0), np.float64)

    def contains(self, x: Floats, /) -> Bools:
        """Whether every coordinate is in its support."""
        x = require_points(x, self.dim)
        parts = [m.contains(x[:, j]) for j, m in enumerate(self.marginals)]
        return np.asarray(np.all(parts, axis=0), np.bool_)

    def features(self, x: Floats, /) -> Floats:
        """The marginals' features, side by side."""
        parts = [m.features(x[:, j]) for j, m in enumerate(self.marginals)]
        return np.concatenate(parts, axis=1)

    def to_dict(self) -> list[dict[str, Any]]:
        """See `Reference`."""
        return [marginal.to_dict() for marginal in self.marginals]


class StandardNormal(ProductReference):
    """N(0, I) on R^dim.

    Examples:
        >>> StandardNormal(2).log_density(np.zeros((1, 2))).round(4).tolist()
        [-1.8379]
    """

    def __init__(self, dim: int) -> None:
        super().__init__([Normal()] * dim)


class TruncatedNormal(ProductReference):
    """Independent normals given that they lie in the box [lower, upper].

    Examples:
        >>> TruncatedNormal([0.0], [1.0]).contains(np.array([[0.5], [2.0]])).tolist()
        [True, False]
    """

    def __init__(
        self,
        lower: Sequence[float],
        upper: Sequence[float],
        mean: float = 0.0,
        stddev: float = 1.0,
    ) -> None:
        pairs = zip(lower, upper, strict=True)
        super().__init__([Normal(mean, stddev, float(low), float(high)) for low, high in pairs])


class UniformBox(ProductReference):
    """Uniform on the box [lower, upper].

    Examples:
        >>> UniformBox([0.0, 0.0], [2.0, 2.0]).log_density(np.ones((1, 2))).round(4).tolist()
        [-1.3863]
    """

    def __init__(self, lower: Sequence[float], upper: Sequence[float]) -> None:
        pairs = zip(lower, upper, strict=True)
        super().__init__([Uniform(float(low), float(high)) for low, high in pairs])


@dataclass(frozen=True)
class CustomReference:
    """Your own public density.

    Arguments:
        dim: Number of coordinates.
        sampler: n and a generator (`random`, `standard_normal`, `integers`) to draws (n, dim). It
            must use no other randomness: a seeded one would make draws a function of the data.
        density: Points (n, dim) to log densities (n,), −∞ outside the support.

    Examples:
        >>> uniform = CustomReference(1, lambda n, rng: rng.random((n, 1)), lambda x: np.zeros(len(x)))
        >>> uniform.sample(3, np.random.default_rng(0)).shape
        (3, 1)
    """

    dim: int
    sampler: Callable[[int, Generator], Floats]
    density: Callable[[Floats], Floats]
    marginals = None

    def sample(self, n: int, generator: Generator, /) -> Floats:
        """Draws (n, dim), of the shape promised."""
        points = require_points(self.sampler(n, generator), self.dim)
        if len(points) != n:
            raise PrivotError(f"sampler gave {len(points)} draws for n = {n}: give n of them")
        return points

    def log_density(self, x: Floats, /) -> Floats:
        """Log density (n,)."""
        return np.asarray(self.density(require_points(x, self.dim)), np.float64)

    def contains(self, x: Floats, /) -> Bools:
        """Whether the log density is finite."""
        return np.isfinite(self.log_density(x))

    def features(self, x: Floats, /) -> Floats:
        """The points themselves."""
        return x

    def to_dict(self) -> None:
        """See `Reference`."""


def require_points(x: Any, dim: int) -> Floats:
    """Points as float64 of shape (n, dim), or a refusal that carries none of them."""
    try:
        points = np.asarray(x, np.float64)
    except (TypeError, ValueError):
        raise PrivotError("points are not numbers: give an array of shape (n, dim)") from None
    if points.ndim == 1 and dim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != dim:
        raise PrivotError(f"points have shape {points.shape}: give (n, {dim})")
    return points
