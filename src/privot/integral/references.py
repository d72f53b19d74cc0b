"""Public reference densities $q_0$, which the models of this package tilt.

A model's density is $q ∝ q_0 e^{s}$ with a tilt $s$ between public constants, so only points with
$q_0 > 0$ can be drawn: the reference must cover the data, and must not be computed from it. A reference
that is far from the data needs a larger ε.

A `ProductReference` has independent coordinates; `privot.integral.records` derives one from a schema. A
`CustomReference` has any sampler and log density.

**Marginals** are public distributions of one coordinate. Each can be drawn from, has a log density (with
respect to length, or to counting where the coordinate is discrete), and can be divided into **cells**,
intervals $[e_i, e_{i+1})$ with probabilities (`privot.integral.density.Axis` rounds them to integers
over $2^{64}$, and draws cells by them exactly).

**Randomness for published draws** comes from the operating system's entropy, because a seeded draw would
be a function of the data. A reference's sampler gets a generator of uniforms, normals and integers, and
is trusted to use no other randomness. For published draws it is a `SecureGenerator`. During a fit it may
be a seeded generator of NumPy: the fit stays with the curator, and the guarantee holds for any fit.

A `SecureGenerator` returns uniforms $(m + ½) 2^{−53}$, $m$ an integer of 53 bits, which are never 0 or
1. Its normals are $Φ^{−1}$ of a 63-bit magnitude, with a separate sign bit, so that both tails have the
same resolution and reach 9.2 standard deviations. These floats are not exactly normal, which is not
needed: the law of proposals is the same for all data (`privot.integral.density`).

**Privacy review: who sees what.** References are public. Only `contains`, `log_density` and `features`
are evaluated on data.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privot.core.errors import PrivotError
from privot.mechanisms.samplers import random_words, uniforms_below

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Size = int | tuple[int, ...]
# In standard deviations; one cell on each side covers the values beyond, 10^−15 of the mass.
_NORMAL_REACH = 8.0


class SecureGenerator:
    """Generator of uniforms, normals and integers from OS entropy, without seed or state."""

    def random(self, size: Size, /) -> Floats:
        """Return uniform numbers in (0, 1), on a grid of 2^−53."""
        words = random_words(_count(size)) >> np.uint64(11)
        uniform: Floats = (words.astype(np.float64) + 0.5) * 2.0**-53
        # The largest word would give 1 by rounding.
        return np.minimum(uniform, 1.0 - 2.0**-53).reshape(size)

    def standard_normal(self, size: Size, /) -> Floats:
        """Return standard normal numbers, with equal resolution in both tails."""
        words = random_words(_count(size))
        magnitude = ndtri(((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64)
        sign = np.where(words & np.uint64(1), 1.0, -1.0)
        return np.asarray(sign * magnitude, np.float64).reshape(size)

    def integers(self, low: int, high: int, size: Size, /) -> NDArray[np.int64]:
        """Return exactly uniform integers from low to high − 1."""
        return (low + uniforms_below(high - low, _count(size))).reshape(size)


def _count(size: Size) -> int:
    """Return the number of entries of an array of this size."""
    return size if isinstance(size, int) else math.prod(size)


Generator = np.random.Generator | SecureGenerator


class Marginal(ABC):
    """Public distribution of one coordinate on [low, high], which may be infinite.

    The constructors of subclasses raise PrivotError for parameters that give no distribution.
    """

    kind: ClassVar[str]
    low: float
    high: float

    @property
    def num_values(self) -> int | None:
        """Number of values of a discrete coordinate; None for a continuous one."""
        return None

    def sample(self, num: int, rng: Generator, /) -> Floats:
        """Make independent draws (num,), by inverting the distribution function."""
        low, high = np.full(num, self.low), np.full(num, self.high)
        return self.quantile(low, high, rng.random(num))

    @abstractmethod
    def log_density(self, x: Floats, /) -> Floats:
        """Return the log density at x (n,), −∞ outside the support."""

    def contains(self, x: Floats, /) -> Bools:
        """Return whether x lies in the support."""
        return np.isfinite(x) & (x >= self.low) & (x <= self.high)

    def features(self, x: Floats, /) -> Floats:
        """Return features (n, k) of x for a network, with mean about 0 and variance about 1."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return ((x - middle) / half * math.sqrt(3))[:, None]

    @abstractmethod
    def edges(self, num_cells: int, /) -> Floats:
        """Return increasing edges (num_cells + 1,) of cells of the support; ends may be infinite.

        A discrete coordinate has one cell for each value instead.
        """

    @abstractmethod
    def mass(self, low: Floats, high: Floats, /) -> Floats:
        """Return the probabilities (n,) of intervals [low, high)."""

    @abstractmethod
    def quantile(self, low: Floats, high: Floats, level: Floats, /) -> Floats:
        """Return quantiles (n,) at levels in (0, 1) of the distribution restricted to [low, high)."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `marginal_from_dict`."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]  # all are dataclasses


@dataclass(frozen=True)
class Normal(Marginal):
    """Normal distribution, optionally truncated to [low, high], of mass 10^−12 or more.

    Examples:
        >>> Normal(mean=1.0).log_density(np.array([1.0])).round(4).tolist()
        [-0.9189]
    """

    kind: ClassVar[str] = "normal"
    mean: float = 0.0
    stddev: float = 1.0
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and math.isfinite(self.stddev) and self.stddev > 0):
            raise PrivotError(
                f"mean {self.mean} and stddev {self.stddev} are no normal law: give finite "
                "numbers, stddev > 0"
            )
        if not self.low < self.high or self._support_mass < 1e-12:
            raise PrivotError(
                f"bounds [{self.low}, {self.high}] contain almost no mass of the normal law: "
                "give the smaller first, near the mean"
            )

    @cached_property
    def _support_mass(self) -> float:
        """Probability of [low, high] under the normal law that is not truncated."""
        return float(_normal_mass(*self._standard(np.array([self.low, self.high]))))

    def _standard(self, x: Floats) -> Floats:
        """Return z = (x − mean)/stddev."""
        return (x - self.mean) / self.stddev

    def sample(self, num: int, rng: Generator, /) -> Floats:
        if math.isinf(self.low) and math.isinf(self.high):
            return self.mean + self.stddev * rng.standard_normal(num)
        return super().sample(num, rng)

    def log_density(self, x: Floats, /) -> Floats:
        constant = math.log(self.stddev * math.sqrt(2 * math.pi) * self._support_mass)
        return np.where(self.contains(x), -0.5 * self._standard(x) ** 2 - constant, -np.inf)

    def features(self, x: Floats, /) -> Floats:
        return self._standard(x)[:, None]

    def edges(self, num_cells: int, /) -> Floats:
        """See `Marginal`; cells have equal lengths within 8 standard deviations."""
        reach = _NORMAL_REACH * self.stddev
        low, high = max(self.low, self.mean - reach), min(self.high, self.mean + reach)
        below = [self.low] if self.low < low else []
        above = [self.high] if self.high > high else []
        return np.concatenate([below, np.linspace(low, high, num_cells - 1), above])

    def mass(self, low: Floats, high: Floats, /) -> Floats:
        return _normal_mass(self._standard(low), self._standard(high)) / self._support_mass

    def quantile(self, low: Floats, high: Floats, level: Floats, /) -> Floats:
        mirrored, a, b = _in_lower_tail(self._standard(low), self._standard(high))
        level = np.where(mirrored, 1 - level, level)
        z = ndtri(ndtr(a) + level * (ndtr(b) - ndtr(a)))
        return np.clip(self.mean + self.stddev * np.where(mirrored, -z, z), low, high)


@dataclass(frozen=True)
class Uniform(Marginal):
    """Uniform distribution on a finite interval [low, high].

    Examples:
        >>> Uniform(0.0, 10.0).mass(np.array([2.0]), np.array([4.0])).tolist()
        [0.2]
    """

    kind: ClassVar[str] = "uniform"
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise PrivotError(
                f"bounds [{self.low}, {self.high}] are not an interval: give two finite numbers, "
                "the smaller first"
            )

    def log_density(self, x: Floats, /) -> Floats:
        return np.where(self.contains(x), -math.log(self.high - self.low), -np.inf)

    def edges(self, num_cells: int, /) -> Floats:
        return np.linspace(self.low, self.high, num_cells + 1)

    def mass(self, low: Floats, high: Floats, /) -> Floats:
        return (high - low) / (self.high - self.low)

    def quantile(self, low: Floats, high: Floats, level: Floats, /) -> Floats:
        return np.clip(low + level * (high - low), low, high)


class _Discrete(Marginal):
    """Distribution on the integers low … high; the only cell of k is [k − ½, k + ½)."""

    low: int
    high: int

    @property
    def num_values(self) -> int:
        return self.high - self.low + 1

    def contains(self, x: Floats, /) -> Bools:
        return super().contains(x) & (x == np.rint(x))

    def log_density(self, x: Floats, /) -> Floats:
        inside = self.contains(x)
        return np.where(inside, np.log(self.probability(np.where(inside, x, self.low))), -np.inf)

    def edges(self, num_cells: int, /) -> Floats:
        return np.arange(self.low, self.high + 2, dtype=np.float64) - 0.5

    @abstractmethod
    def probability(self, x: Floats, /) -> Floats:
        """Return the probabilities (n,) of integers x (n,) from low to high."""

    def mass(self, low: Floats, high: Floats, /) -> Floats:
        return self.probability(np.rint((low + high) / 2))

    def quantile(self, low: Floats, high: Floats, level: Floats, /) -> Floats:
        return np.rint((low + high) / 2)


@dataclass(frozen=True)
class Categorical(_Discrete):
    """Distribution on codes 0 … k−1 with public probabilities, positive numbers that sum to 1."""

    kind: ClassVar[str] = "categorical"
    probabilities: tuple[float, ...]
    low: ClassVar[int] = 0  # type: ignore[misc]  # the first code

    def __post_init__(self) -> None:
        p = self.probabilities
        if not p or any(not value > 0 for value in p) or abs(sum(p) - 1) > 1e-9:
            raise PrivotError(
                f"probabilities {list(p)} are no categorical law: give positive numbers that "
                "add up to 1 (a value of probability 0 could never be drawn)"
            )

    @property
    def high(self) -> int:  # type: ignore[override]
        """The last code."""
        return len(self.probabilities) - 1

    def sample(self, num: int, rng: Generator, /) -> Floats:
        ends = np.cumsum(self.probabilities)[:-1]
        return np.searchsorted(ends, rng.random(num), side="right").astype(np.float64)

    def features(self, x: Floats, /) -> Floats:
        """See `Marginal`: an indicator for each code, or for two codes a single feature ±1."""
        if self.num_values == 2:
            return (2 * x - 1)[:, None]
        return (x[:, None] == np.arange(self.num_values)).astype(np.float64)

    def probability(self, x: Floats, /) -> Floats:
        return np.asarray(self.probabilities)[x.astype(np.int64)]


@dataclass(frozen=True)
class Integers(_Discrete):
    """Uniform distribution on the integers low … high, both included, within ±2^52."""

    kind: ClassVar[str] = "integers"
    low: int
    high: int

    def __post_init__(self) -> None:
        if not self.low < self.high or max(abs(self.low), abs(self.high)) > 2**52:
            raise PrivotError(
                f"bounds [{self.low}, {self.high}] are no interval of integers: give two, the smaller "
                "first, up to 2^52"
            )

    def sample(self, num: int, rng: Generator, /) -> Floats:
        return rng.integers(self.low, self.high + 1, num).astype(np.float64)

    def probability(self, x: Floats, /) -> Floats:
        return np.full(len(x), 1 / self.num_values)


_KINDS: dict[str, type[Marginal]] = {
    kind.kind: kind for kind in (Normal, Uniform, Categorical, Integers)
}


def marginal_from_dict(fields: dict[str, Any]) -> Marginal:
    """Build the marginal from the plain values of `to_dict`."""
    arguments = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    kind = arguments.pop("kind", None)
    if kind not in _KINDS:
        raise PrivotError(f"kind of marginal is {kind!r}: give one of {', '.join(_KINDS)}")
    return _KINDS[kind](**arguments)


def _normal_mass(low: Floats, high: Floats) -> Floats:
    """Return Φ(high) − Φ(low), computed in the lower tail."""
    _, a, b = _in_lower_tail(low, high)
    return np.asarray(ndtr(b) - ndtr(a), np.float64)


def _in_lower_tail(low: Floats, high: Floats) -> tuple[Bools, Floats, Floats]:
    """Mirror intervals above 0, where Φ loses digits; return whether each is mirrored, and its ends."""
    mirrored = low > 0
    return mirrored, np.where(mirrored, -high, low), np.where(mirrored, -low, high)


class Reference(ABC):
    """Public density on R^dim; coordinates may be discrete.

    Attributes:
        dim: Number of coordinates.
        marginals: Distributions of the coordinates if they are independent, else None.
    """

    dim: int
    marginals: tuple[Marginal, ...] | None = None

    @abstractmethod
    def sample(self, n: int, generator: Generator, /) -> Floats:
        """Make independent draws (n, dim), using no randomness but the generator."""

    @abstractmethod
    def log_density(self, x: Floats, /) -> Floats:
        """Return the log density (n,) of points (n, dim); −∞ outside the support."""

    def contains(self, x: Floats, /) -> Bools:
        """Return whether points (n, dim) lie in the support."""
        return np.isfinite(self.log_density(x))

    def features(self, x: Floats, /) -> Floats:
        """Return features (n, k) of points (n, dim) for a classifier; by default the points."""
        return x

    def to_dict(self) -> list[dict[str, Any]] | None:
        """Return plain values of the marginals, for `marginal_from_dict`; None if there are none."""
        return None


class ProductReference(Reference):
    """Reference of independent coordinates with public marginals.

    Examples:
        >>> reference = ProductReference((Uniform(0.0, 10.0), Categorical((0.25, 0.75))))
        >>> reference.log_density(np.array([[5.0, 1.0]])).round(4).tolist()
        [-2.5903]
    """

    def __init__(self, marginals: Sequence[Marginal]) -> None:
        if not marginals:
            raise PrivotError("marginals are empty: give one for each coordinate")
        self.marginals: tuple[Marginal, ...] = tuple(marginals)
        self.dim = len(self.marginals)

    def sample(self, n: int, generator: Generator, /) -> Floats:
        return np.stack([marginal.sample(n, generator) for marginal in self.marginals], axis=1)

    def log_density(self, x: Floats, /) -> Floats:
        x = require_points(x, self.dim)
        parts = [m.log_density(x[:, j]) for j, m in enumerate(self.marginals)]
        return np.asarray(np.sum(parts, axis=0), np.float64)

    def contains(self, x: Floats, /) -> Bools:
        x = require_points(x, self.dim)
        parts = [m.contains(x[:, j]) for j, m in enumerate(self.marginals)]
        return np.asarray(np.all(parts, axis=0), np.bool_)

    def features(self, x: Floats, /) -> Floats:
        parts = [m.features(x[:, j]) for j, m in enumerate(self.marginals)]
        return np.concatenate(parts, axis=1)

    def to_dict(self) -> list[dict[str, Any]]:
        return [marginal.to_dict() for marginal in self.marginals]


class StandardNormal(ProductReference):
    """Standard normal reference N(0, I) on R^dim.

    Examples:
        >>> StandardNormal(2).log_density(np.zeros((1, 2))).round(4).tolist()
        [-1.8379]
    """

    def __init__(self, dim: int) -> None:
        super().__init__([Normal()] * dim)


class UniformBox(ProductReference):
    """Uniform reference on the box with corners `lower` and `upper` (dim,).

    Examples:
        >>> UniformBox([0.0, 0.0], [2.0, 2.0]).log_density(np.ones((1, 2))).round(4).tolist()
        [-1.3863]
    """

    def __init__(self, lower: Sequence[float], upper: Sequence[float]) -> None:
        pairs = zip(lower, upper, strict=True)
        super().__init__([Uniform(float(low), float(high)) for low, high in pairs])


@dataclass(frozen=True)
class CustomReference(Reference):
    """Reference given by a sampler and a log density.

    Arguments:
        dim: Number of coordinates.
        sampler: Function of n and a generator (`random`, `standard_normal`, `integers`) that makes draws
            (n, dim). It must use no other randomness: seeded draws would be a function of the data.
        density: Function from points (n, dim) to log densities (n,), −∞ outside the support.

    Examples:
        >>> uniform = CustomReference(1, lambda n, rng: rng.random((n, 1)), lambda x: np.zeros(len(x)))
        >>> uniform.sample(3, np.random.default_rng(0)).shape
        (3, 1)
    """

    dim: int
    sampler: Callable[[int, Generator], Floats]
    density: Callable[[Floats], Floats]

    def sample(self, n: int, generator: Generator, /) -> Floats:
        """Make draws (n, dim); refuse a sampler that returns another shape."""
        points = require_points(self.sampler(n, generator), self.dim)
        if len(points) != n:
            raise PrivotError(f"sampler made {len(points)} draws for n = {n}: make n draws")
        return points

    def log_density(self, x: Floats, /) -> Floats:
        return np.asarray(self.density(require_points(x, self.dim)), np.float64)


def require_points(x: Any, dim: int) -> Floats:
    """Return points as float64 of shape (n, dim); raise PrivotError, without values, if they are not."""
    try:
        points = np.asarray(x, np.float64)
    except (TypeError, ValueError):
        raise PrivotError("points are not numbers: give an array of shape (n, dim)") from None
    if points.ndim == 1 and dim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != dim:
        raise PrivotError(f"points have shape {points.shape}: give (n, {dim})")
    return points
