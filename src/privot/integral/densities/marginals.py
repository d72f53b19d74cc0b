r"""Public laws of one coordinate: what a reference density is a product of.

Each can be drawn from, has a log density (with respect to length, or to counting where the coordinate
is discrete), and can be cut into **cells**: intervals $[e_i, e_{i+1})$ whose probabilities are
integers $M_i$ over $2^{64}$ that add up to exactly $2^{64}$. A coordinate is then drawn as a cell, by
one 64-bit word, and a place within it. The cell's law is exact; `privot.integral.densities.grid` rests
on that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privot.errors import PrivotError
from privot.integral.densities.secure import Array, Generator

_NORMAL_REACH = 8.0  # beyond lie 10^−15 of a standard normal, in two cells of their own
Bools = NDArray[np.bool_]


class Marginal(Protocol):
    """The public law of one coordinate."""

    kind: ClassVar[str]

    @property
    def num_values(self) -> int | None:
        """How many values a discrete coordinate has; None for a continuous one."""

    def sample(self, num: int, rng: Generator, /) -> Array:
        """Independent draws (num,)."""

    def log_density(self, x: Array, /) -> Array:
        """Log density at x (n,), −∞ outside the support."""

    def contains(self, x: Array, /) -> Bools:
        """Whether x lies in the support."""

    def features(self, x: Array, /) -> Array:
        """What a network sees of x: (n, k), of order 1."""

    def edges(self, num_cells: int, /) -> Array:
        """Edges of cells that cover the support, increasing; the outer two may be infinite."""

    def mass(self, low: Array, high: Array, /) -> Array:
        """Probability of [low, high)."""

    def within(self, low: Array, high: Array, place: Array, /) -> Array:
        """The point of [low, high) below which a share `place` of the cell's probability lies."""


@dataclass(frozen=True)
class Normal:
    """A normal coordinate, optionally truncated to [low, high]."""

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
        if not self.low < self.high or self._total < 1e-12:
            raise PrivotError(
                f"bounds [{self.low}, {self.high}] hold next to nothing of the normal law: "
                "give the smaller first, near the mean"
            )

    num_values = None

    @cached_property
    def _total(self) -> float:
        return float(_normal_mass(*self._standard(np.array([self.low, self.high]))))

    def _standard(self, x: Array) -> Array:
        return (x - self.mean) / self.stddev

    def sample(self, num: int, rng: Generator, /) -> Array:
        """Draws (num,), by inverting the distribution function if truncated."""
        if math.isinf(self.low) and math.isinf(self.high):
            return self.mean + self.stddev * rng.standard_normal(num)
        low, high = np.full(num, self.low), np.full(num, self.high)
        return self.within(low, high, rng.random(num))

    def log_density(self, x: Array, /) -> Array:
        """−z²/2 − log(σ√2π) − log P(support)."""
        constant = math.log(self.stddev * math.sqrt(2 * math.pi) * self._total)
        return np.where(self.contains(x), -0.5 * self._standard(x) ** 2 - constant, -np.inf)

    def contains(self, x: Array, /) -> Bools:
        """Whether low ≤ x ≤ high, and x is finite."""
        return np.isfinite(x) & (x >= self.low) & (x <= self.high)

    def features(self, x: Array, /) -> Array:
        """The standardized number."""
        return self._standard(x)[:, None]

    def edges(self, num_cells: int, /) -> Array:
        """Equal cells within 8 standard deviations, and what is beyond."""
        reach = _NORMAL_REACH * self.stddev
        low, high = max(self.low, self.mean - reach), min(self.high, self.mean + reach)
        inner = np.linspace(low, high, num_cells - 1)
        ends = [self.low] * (self.low < low), [self.high] * (self.high > high)
        return np.concatenate([ends[0], inner, ends[1]])

    def mass(self, low: Array, high: Array, /) -> Array:
        """Φ(high) − Φ(low), from the nearer tail, over that of the support."""
        return _normal_mass(self._standard(low), self._standard(high)) / self._total

    def within(self, low: Array, high: Array, place: Array, /) -> Array:
        """Φ⁻¹ between the ends' values, from the nearer tail."""
        a, b = self._standard(low), self._standard(high)
        flip = a > 0
        a, b = np.where(flip, -b, a), np.where(flip, -a, b)
        share = np.where(flip, 1 - place, place)
        z = ndtri(ndtr(a) + share * (ndtr(b) - ndtr(a)))
        x = self.mean + self.stddev * np.where(flip, -z, z)
        return np.clip(x, low, high)


@dataclass(frozen=True)
class Uniform:
    """A number uniform on [low, high]."""

    kind: ClassVar[str] = "uniform"
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise PrivotError(
                f"bounds [{self.low}, {self.high}] are not an interval: give two finite numbers, "
                "the smaller first"
            )

    num_values = None

    def sample(self, num: int, rng: Generator, /) -> Array:
        """Draws (num,)."""
        return np.clip(self.low + (self.high - self.low) * rng.random(num), self.low, self.high)

    def log_density(self, x: Array, /) -> Array:
        """−log(high − low) inside."""
        return np.where(self.contains(x), -math.log(self.high - self.low), -np.inf)

    def contains(self, x: Array, /) -> Bools:
        """Whether low ≤ x ≤ high."""
        return (x >= self.low) & (x <= self.high)

    def features(self, x: Array, /) -> Array:
        """The number, brought to mean 0 and variance 1."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return ((x - middle) / half * math.sqrt(3))[:, None]

    def edges(self, num_cells: int, /) -> Array:
        """Equal cells."""
        return np.linspace(self.low, self.high, num_cells + 1)

    def mass(self, low: Array, high: Array, /) -> Array:
        """(high − low)/length."""
        return (high - low) / (self.high - self.low)

    def within(self, low: Array, high: Array, place: Array, /) -> Array:
        """Linear."""
        return np.clip(low + place * (high - low), low, high)


@dataclass(frozen=True)
class Choice:
    """One of the codes 0 … k−1, with public probabilities."""

    kind: ClassVar[str] = "choice"
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        p = self.probabilities
        if not p or any(not value > 0 for value in p) or abs(sum(p) - 1) > 1e-9:
            raise PrivotError(
                f"probabilities {list(p)} do not describe a choice: give positive numbers that "
                "add up to 1 (a value of probability 0 could never be drawn)"
            )

    @property
    def num_values(self) -> int:
        """Number of codes k."""
        return len(self.probabilities)

    def sample(self, num: int, rng: Generator, /) -> Array:
        """Draws (num,) of codes, as floats."""
        sums = np.cumsum(self.probabilities)[:-1]
        return np.searchsorted(sums, rng.random(num), side="right").astype(np.float64)

    def log_density(self, x: Array, /) -> Array:
        """Log probability of a code."""
        codes = np.where(self.contains(x), x, 0).astype(np.int64)
        return np.where(self.contains(x), np.log(self.probabilities)[codes], -np.inf)

    def contains(self, x: Array, /) -> Bools:
        """Whether x is one of 0 … k−1."""
        return (x >= 0) & (x < self.num_values) & (x == np.rint(x))

    def features(self, x: Array, /) -> Array:
        """One indicator a code; of two codes, one number of variance about 1."""
        if self.num_values == 2:
            return (2 * x - 1)[:, None]
        return (x[:, None] == np.arange(self.num_values)).astype(np.float64)

    def edges(self, num_cells: int, /) -> Array:
        """Half a unit to either side of every code."""
        return np.arange(self.num_values + 1, dtype=np.float64) - 0.5

    def mass(self, low: Array, high: Array, /) -> Array:
        """The probability of the code between two edges."""
        return np.asarray(self.probabilities)[np.rint((low + high) / 2).astype(np.int64)]

    def within(self, low: Array, high: Array, place: Array, /) -> Array:
        """The code itself."""
        return np.rint((low + high) / 2)


@dataclass(frozen=True)
class Integers:
    """An integer uniform on low … high, both included."""

    kind: ClassVar[str] = "integers"
    low: int
    high: int

    def __post_init__(self) -> None:
        if not self.low < self.high or max(abs(self.low), abs(self.high)) > 2**52:
            raise PrivotError(
                f"bounds [{self.low}, {self.high}] are not of integers: give two, the smaller "
                "first, below 2^52"
            )

    @property
    def num_values(self) -> int:
        """How many integers."""
        return self.high - self.low + 1

    def sample(self, num: int, rng: Generator, /) -> Array:
        """Draws (num,), as floats."""
        return rng.integers(self.low, self.high + 1, num).astype(np.float64)

    def log_density(self, x: Array, /) -> Array:
        """−log of how many there are."""
        return np.where(self.contains(x), -math.log(self.num_values), -np.inf)

    def contains(self, x: Array, /) -> Bools:
        """Whether x is one of them."""
        return (x >= self.low) & (x <= self.high) & (x == np.rint(x))

    def features(self, x: Array, /) -> Array:
        """The number, brought to mean 0 and variance about 1."""
        half = (self.high - self.low) / 2
        return ((x - (self.low + half)) / half * math.sqrt(3))[:, None]

    def edges(self, num_cells: int, /) -> Array:
        """Half a unit to either side of every integer."""
        return np.arange(self.low, self.high + 2, dtype=np.float64) - 0.5

    def mass(self, low: Array, high: Array, /) -> Array:
        """The share of one integer."""
        return np.full(len(low), 1 / self.num_values)

    def within(self, low: Array, high: Array, place: Array, /) -> Array:
        """The integer itself."""
        return np.rint((low + high) / 2)


_KINDS: dict[str, Callable[..., Marginal]] = {
    kind.kind: kind for kind in (Normal, Uniform, Choice, Integers)
}


def marginal_from_dict(fields: dict[str, Any]) -> Marginal:
    """The marginal of plain values: its fields, and its `kind`."""
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items() if k != "kind"}
    if fields.get("kind") not in _KINDS:
        raise PrivotError(f"kind of marginal is {fields.get('kind')!r}: one of {', '.join(_KINDS)}")
    return _KINDS[fields["kind"]](**plain)


def _normal_mass(low: Array, high: Array) -> Array:
    flip = low > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    return np.asarray(ndtr(b) - ndtr(a), np.float64)
