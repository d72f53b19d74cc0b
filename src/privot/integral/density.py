r"""Tilted densities, exact draws from them, and references divided into cells.

A model's density is $q ∝ q_0 e^{s}$, with a public reference $q_0$ and a tilt $s$ that is learned from
the data and clipped to public limits $[\ell, h]$. A draw depends on the data only through the clipped
tilt.

**Drawing.** Propose $x ∼ q_0$ and accept it with probability $a(x) = e^{s(x) − h}$, until one is
accepted. It has the density $q_0 a / \bar a$, $\bar a = E_{q_0} a$: no normalizer and no burn-in is
needed.

**Theorem.** Let $w = h − \ell$ be the width of the tilt, and $Z = E_{q_0} e^{s}$. If $\log Z$ lies in a
public interval $[z_-, z_+]$ for all data, then for the densities $q, q′$ of any two data sets, of any
sizes, and every $x$,

$$ \frac{q(x)}{q′(x)} = e^{s(x) − s′(x)} \frac{Z′}{Z} ≤ e^{w + z_+ − z_-} =: e^{ε} . $$

So one draw is ε-integrally private, and $N$ draws, independent given the model, are $Nε$-integrally
private, as the densities of independent draws multiply. Always $\ell ≤ \log Z ≤ h$, so $ε = 2w$ for a
tilt that is not normalized; a normalizer known up to $e^{±η}$ gives $ε = w + 2η$.

**Floating point** does not weaken the guarantee. Let $Q_0$ be the law of the floats that the reference's
sampler produces. It is not exactly $q_0$, but it is the same law for all data, as the proof requires.
The tilt may have any rounding errors, because it is clipped afterwards. A proposal $x$ is accepted if a
uniform 63-bit integer is below $T(x) = ⌈2^{63} e^{s − h}⌉$, clipped to $[⌈2^{63} e^{−w}⌉, 2^{63}]$,
whose lower end is computed in decimals and rounded up. So the ratio of two acceptance probabilities is
at most $e^w$ *in integers*, and the theorem holds for $Q_0$. If $z_±$ are certified, η covers the
certificate's rounding.

**Draws together.** `draw_together(n)` limits only the *sum* of the tilts of n draws. Given public limits
$L ≤ 0 ≤ U$, draw t has a normalized tilt $s_t$ within a window $[\ell_t, h_t]$, which may depend on the
data and the draws before in any way, if

$$ L ≤ \sum_{i<t} s_i(x_i) + \ell_t , \qquad \sum_{i<t} s_i(x_i) + h_t ≤ U . $$

**Theorem.** The joint density $Q$ of the draws, and of the first t of them, is $q_0 ⋯ q_0 \, e^{\sum_i
s_i(x_i)}$, a product of conditional densities. At every point $Q / (q_0 ⋯ q_0) ∈ [e^L, e^U]$, and so
$Q/Q′ ≤ e^{U − L}$ for any two data sets, of any sizes. With $U − L = nw$ and normalizers within
$e^{±η}$, n draws together are $n(w + 2η) = nε$-integrally private, without a δ, **as are n independent
draws**. (A random order of the draws is post-processing.)

The gain: n draws with density q change the sum by about $n\,\mathrm{KL}(q‖q_0)$, not by $n \max \log
q/q_0$. So windows can be wider than w, and q approaches every density with $\mathrm{KL}(p‖q_0) < ε$ as n
grows. Here $L = n^{0.6} \log b$; windows are chosen as wide as the limits, and a constant pace of
divergences, allow. The sum is computed from the integers T; half of η covers its rounding.

**Timing.** Running time reveals the number of proposals of a draw, which is geometric with mean
$1/\bar a$, at most $e^{h − z_-}$ ($e^{ε/2}$ for a tilt that is not normalized). It depends on the data
only through $\bar a$, and is independent of the draw's value; if $Z$ is certified, $\bar a$ is public up
to $e^{±η}$, but not for draws together, whose windows depend on the data.
`draw(n, proposals=m)` closes this channel: every draw takes $m$ proposals and one more draw
of $q_0$, which is returned if no proposal is accepted. Its density is $(1 − f) q + f q_0$ with
$f = (1 − \bar a)^m$. The set of densities with $q/q_0 ∈ [e^{\ell − z_+}, e^{h − z_-}]$ is convex and
contains $q_0$ and every $q$, so **ε is the same, without a δ**. The cost is accuracy: the total
variation from $q$ is at most $(1 − e^{z_- − h})^m$, which `shortfall(m)` computes and `proposals_for`
inverts. The number of operations for a tilt is public as well: networks have declared widths, tables a
public grid, splines public points, and trees a fixed number and depth (`privot.integral.learners`).
Effects of caches, branch prediction and data-dependent instructions are not hidden.

**Privacy review: who sees what.** The curator has the data, the tilt, acceptance rates and running
times. They all depend on the data, and must not leave the curator; objects do not print them. Only
draws may leave, as many as were declared.

**References divided into cells.** Divide every coordinate of a product reference into cells whose
probabilities are integers over $2^{64}$, and let the tilt be constant on every product of cells. Then
$Z = \sum_i p_i e^{s_i}$ is a finite sum over the products i, of probabilities $p_i$, and the normalizer
of the *actual* sampler: the cell of a coordinate is drawn by one 64-bit word, exactly with its
probability, and the place within it is public noise that does not influence the tilt. There is no
quadrature error, only the rounding of a sum of positive floats, a relative $10^{−12}$.

A step function has an error of second order: with cells of width $g$ and a tilt of slope $c$, the
Kullback–Leibler divergence is about $(cg)^2/24$. One continuous coordinate gets 16 384 cells, two get
1024 each; a table of categories gets one cell for every combination. There is no grid if this is more
than $2^{20}$ cells, or if a continuous coordinate would have fewer than 256.

References:
    Husain, Balle, Cranko, Nock, *Local/integral privacy for density estimation with approximation
    guarantees* (2018/2020), Lemma 3; Park, Asoodeh, Lee, *Exactly minimax-optimal locally
    differentially private sampling* (2024).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from privot.core.errors import PrivotError, require_count
from privot.integral.references import (
    Floats,
    Generator,
    Marginal,
    ProductReference,
    Reference,
    SecureGenerator,
    require_points,
)
from privot.mechanisms.samplers import random_words
from privot.privacy.rounding import at_most, round_up

Arrays = Mapping[str, NDArray[Any]]
Packed = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # plain values and named arrays of a tilt
_COINS = 2**63
_MAX_PROPOSALS, _MAX_FIXED = 2.0**24, 2**22  # proposals for a draw: expected, and fixed
_BATCH, _LARGEST_BATCH = 2**14, 2**17  # proposals made at once
_EXACT = Context(prec=60)
# Draws together: number of windows and largest width, exponent of n in L, and number of blocks.
_WINDOWS, _WIDEST, _FLOOR_POWER, _BLOCKS = 16, 12.0, 0.6, 64
MOST_CELLS = 2**20  # of a grid
_MAX_CELLS, _MIN_CELLS = 2**14, 256  # of a continuous coordinate
_TOTAL_MASS = 2**64
_BLOCK = 2**16  # cells tabulated at once


class Tilt(Protocol):
    """Protocol of learned log density ratios, before clipping. They are secret."""

    kind: ClassVar[str]

    def __call__(self, x: Floats, /) -> Floats:
        """Return values (n,) at points (n, dim)."""

    def pack(self) -> Packed:
        """Return plain values and named arrays, from which `unpack` builds the tilt again."""

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        """Build the tilt from plain values and arrays, and the reference with which it was learned."""


@dataclass(frozen=True)
class Normalizer:
    """Public limits of log Z = log E e^s, and the probability δ that they fail (0 if proven)."""

    low: float
    high: float
    delta: float = 0.0


@dataclass(frozen=True)
class TiltedDensity:
    """Density ∝ reference · e^tilt, with the tilt clipped to [low, high]. Only its draws are private.

    Arguments:
        reference: Public reference density.
        tilt: Learned log density ratio; secret.
        low: Public lower limit of the tilt.
        high: Public upper limit of the tilt.
        normalizer: Public limits of log Z; by default [low, high], which always hold.

    Raises:
        PrivotError: if the limits are no interval, or a draw may take over 2^24 proposals on average.

    Examples:
        >>> from privot.integral.references import StandardNormal
        >>> TiltedDensity(StandardNormal(1), lambda x: x[:, 0], low=-0.5, high=0.5).epsilon
        2.0
    """

    reference: Reference
    tilt: Tilt = field(repr=False)
    low: float
    high: float
    normalizer: Normalizer | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise PrivotError(
                f"limits [{self.low}, {self.high}] of the tilt are no interval: give two finite "
                "numbers, the smaller first"
            )
        if self._log_envelope > math.log(_MAX_PROPOSALS):
            raise PrivotError(
                f"epsilon of one draw is {at_most(self.epsilon)}: a draw may take "
                f"e^{self._log_envelope:.3g} proposals; give a smaller epsilon (below 33), "
                "or split it over more draws"
            )

    @property
    def log_normalizer_limits(self) -> tuple[float, float]:
        """Public limits of log Z."""
        if self.normalizer is None:
            return self.low, self.high
        return max(self.low, self.normalizer.low), min(self.high, self.normalizer.high)

    @property
    def delta(self) -> float:
        """Probability that the limits of log Z fail, for all draws together."""
        return 0.0 if self.normalizer is None else self.normalizer.delta

    @property
    def epsilon(self) -> float:
        """ε of one draw: the width of the tilt plus the width of log Z's limits, rounded up."""
        z_low, z_high = self.log_normalizer_limits
        exact = Fraction(self.high) - Fraction(self.low) + Fraction(z_high) - Fraction(z_low)
        return round_up(exact)

    @property
    def _log_envelope(self) -> float:
        """Logarithm of the largest expected number of proposals for a draw."""
        return self.high - self.log_normalizer_limits[0]

    @property
    def acceptance_floor(self) -> float:
        """Public lower bound e^(z₋ − high) on the probability that a proposal is accepted."""
        return math.exp(-self._log_envelope)

    def log_tilt(self, x: Any, /) -> Floats:
        """Return the clipped tilt (n,) at points (n, dim) (**not private**)."""
        raw = np.asarray(self.tilt(require_points(x, self.reference.dim)), np.float64)
        return np.clip(np.where(np.isnan(raw), self.low, raw), self.low, self.high)

    def log_unnormalized(self, x: Any, /) -> Floats:
        """Return log q₀ + tilt (n,), which is log q + log Z, at points (n, dim); **not private**."""
        points = require_points(x, self.reference.dim)
        return self.reference.log_density(points) + self.log_tilt(points)

    def draw(self, n: int, proposals: int | None = None) -> Floats:
        """Make exact draws (n, dim) with OS entropy; each costs `epsilon`.

        Arguments:
            n: Number of draws, at least 0.
            proposals: Fixed number of proposals for each draw, up to 2^22, which closes the timing
                channel. The density of draws is then within `shortfall(proposals)` of q in total
                variation, with the same ε.
        """
        if n < 0:
            raise PrivotError(f"n {n} is negative: give a number of records to draw")
        if proposals is not None:
            return self._draw_fixed(n, proposals)
        generator = SecureGenerator()
        drawn, num_drawn = [np.empty((0, self.reference.dim))], 0
        batch = int(min(max(64, 1.2 * n / self.acceptance_floor), _BATCH))
        while num_drawn < n:
            points = self.reference.sample(batch, generator)
            accepted = points[self._toss(points)][: n - num_drawn]
            drawn.append(accepted)
            num_drawn += len(accepted)
            batch = min(2 * batch, _LARGEST_BATCH)
        return np.concatenate(drawn)

    def draw_together(self, n: int) -> Floats:
        """Make draws (n, dim), in random order, that cost n·`epsilon` together (see above).

        They are nearer to the data than `draw(n)`. Without a grid they are those of `draw(n)`.
        """
        if n < 2 or self.normalizer is None or not isinstance(self.tilt, TabulatedTilt):
            return self.draw(n)
        drawn, total, left = [], 0.0, n
        while left:
            block = -(-left // _BLOCKS)
            density = self.window(n, left, block, total)
            drawn.append(density.draw(block))
            total += float(density.accepted_tilt(drawn[-1]).sum())
            left -= block
        return np.concatenate(drawn)[np.argsort(random_words(n))]

    def window(self, n: int, left: int, block: int, total: float) -> "TiltedDensity":
        """Return the density of the next `block` of n draws, if `left` are to come (**not private**).

        `total` is the sum of the tilts of the draws before.
        """
        lowest = self.low * n**_FLOOR_POWER
        down, up = total - lowest, n * (self.high - self.low) + lowest - total
        best = replace(self, low=0.0, high=0.0)  # the reference
        for density, divergence in self._windows:
            fits = -block * density.low <= down and density.high * math.sqrt(block * left) <= up
            if fits and divergence * left <= up:
                best = density
        return best

    @cached_property
    def _windows(self) -> list[tuple["TiltedDensity", float]]:
        """Densities of increasing width, with their divergences KL(q‖q₀) in nats."""
        assert isinstance(self.tilt, TabulatedTilt)
        width, found = self.high - self.low, []
        widest = max(width, min(64 * width, _WIDEST))
        for wider in np.geomspace(width / 2, widest, _WINDOWS).tolist():
            low = self.low / width * wider
            density = replace(self, low=low, high=low + wider).normalized(self.tilt)
            assert isinstance(density.tilt, TabulatedTilt)
            tilt = np.clip(density.tilt.values, density.low, density.high)
            found.append((density, self.tilt.grid.mean(np.exp(tilt) * tilt)))
        return found

    def normalized(self, table: "TabulatedTilt") -> Self:
        """Return the density with a table as its tilt, shifted so that the finite sum Z is 1."""
        values, grid = table.values, table.grid

        def log_z(shift: float) -> float:
            return math.log(grid.mean(np.exp(np.clip(values - shift, self.low, self.high))))

        shift = find_root(log_z, float(values.min()) - self.high, float(values.max()) - self.low)
        coins = self.coins_of(np.clip(values - shift, self.low, self.high))
        error = math.log(grid.mean(coins.astype(np.float64) / _COINS)) + self.high
        assert self.normalizer is not None
        if not abs(error) <= 0.5 * self.normalizer.high:
            values, shift = np.zeros_like(values), 0.0  # never expected; the reference has Z = 1
        return replace(self, tilt=TabulatedTilt(grid, values - shift))

    def shortfall(self, proposals: int) -> float:
        """Return (1 − acceptance_floor)^proposals, a bound on the total variation of draws from q."""
        require_count("proposals", proposals, _MAX_FIXED, "more are beyond memory")
        return math.exp(proposals * self._log_rejection)

    def proposals_for(self, shortfall: float) -> int:
        """Return the least fixed number of proposals with at most this `shortfall`, in (0, 1)."""
        if not 0 < shortfall < 1:
            raise PrivotError(f"shortfall {shortfall} is not in (0, 1): give a probability")
        return max(1, math.ceil(math.log(shortfall) / self._log_rejection))

    @property
    def _log_rejection(self) -> float:
        """Logarithm of the largest probability that a proposal is rejected; negative."""
        return math.log1p(-min(self.acceptance_floor, 1 - 2.0**-53))

    def _draw_fixed(self, n: int, proposals: int) -> Floats:
        """Make draws (n, dim) by a fixed number of proposals each."""
        self.shortfall(proposals)  # refuses numbers out of range
        generator = SecureGenerator()
        width = proposals + 1  # the last point is returned if no proposal is accepted
        drawn, at_once = [np.empty((0, self.reference.dim))], max(1, _LARGEST_BATCH // width)
        for start in range(0, n, at_once):
            draws = min(at_once, n - start)
            points = self.reference.sample(draws * width, generator)
            accepted = self._toss(points).reshape(draws, width)
            # A search that stops at the first accepted proposal would not take constant time.
            first = np.where(accepted, np.arange(width), proposals).min(axis=1)
            drawn.append(points.reshape(draws, width, -1)[np.arange(draws), first])
        return np.concatenate(drawn)

    @cached_property
    def _fewest_coins(self) -> int:
        """Smallest T(x), ⌈2^63 e^−w⌉ rounded up."""
        width = Fraction(self.high) - Fraction(self.low)
        # The width is rounded down, so that the power is rounded up, to the safe side.
        narrow = Decimal(math.nextafter(float(width), 0.0)) if width else Decimal(0)
        power = _EXACT.next_plus(_EXACT.exp(-narrow))
        coins = int((power * _COINS).to_integral_value(ROUND_CEILING))
        return min(coins, _COINS)

    def coins(self, x: Floats) -> NDArray[np.uint64]:
        """Return T(x) (n,) at points (n, dim): how many of 2^63 values accept x (**not private**)."""
        return self.coins_of(self.log_tilt(x))

    def coins_of(self, tilt: Floats) -> NDArray[np.uint64]:
        """Return T for values of the tilt, of any shape (**not private**)."""
        coins = np.ceil(np.exp(np.minimum(tilt - self.high, 0.0)) * float(_COINS))
        fewest, most = np.uint64(self._fewest_coins), np.uint64(_COINS)
        return np.clip(coins.astype(np.uint64), fewest, most)

    def accepted_tilt(self, x: Floats) -> Floats:
        """Return log T/2^63 + high (n,), the tilt that accepts points (n, dim); **not private**."""
        return np.log(self.coins(x).astype(np.float64) / _COINS) + self.high

    def _toss(self, points: Floats) -> NDArray[np.bool_]:
        """Decide by random coins which points (n,) are accepted."""
        words = random_words(len(points)) >> np.uint64(1)
        return np.asarray(words < self.coins(points), np.bool_)


@dataclass(frozen=True)
class Axis:
    """Cells of one coordinate: a marginal, and the k + 1 increasing edges of k ≥ 2 cells."""

    marginal: Marginal
    edges: Floats

    @property
    def size(self) -> int:
        """Number of cells k."""
        return len(self.edges) - 1

    @cached_property
    def masses(self) -> NDArray[np.uint64]:
        """Masses (k,) of the cells: probabilities times 2^64, integers that add up to 2^64."""
        shares = self.marginal.mass(self.edges[:-1], self.edges[1:])
        masses = [int(share * _TOTAL_MASS) for share in (shares / shares.sum()).tolist()]
        largest = int(np.argmax(shares))
        masses[largest] += _TOTAL_MASS - sum(masses)
        if masses[largest] == _TOTAL_MASS:  # exceeds 64 bits: another cell gets mass 1
            masses[largest] -= 1
            masses[largest - 1] += 1
        return np.array(masses, np.uint64)

    @cached_property
    def _ends(self) -> NDArray[np.uint64]:
        """Cumulative masses (k − 1,), without the last, 2^64, which exceeds a word."""
        return np.cumsum(self.masses[:-1], dtype=np.uint64)

    @cached_property
    def middles(self) -> Floats:
        """Median points of the cells (k,)."""
        return self.marginal.quantile(self.edges[:-1], self.edges[1:], np.full(self.size, 0.5))

    def draw(self, num: int, level: Floats) -> Floats:
        """Draw points (num,): cells by their masses, and in each the quantile at `level` (num,)."""
        cell = np.searchsorted(self._ends, random_words(num), side="right")
        low, high = self.edges[cell], self.edges[cell + 1]
        x = self.marginal.quantile(low, high, level)
        # Rounding must not move a point to another cell.
        return np.clip(x, low, np.nextafter(high, -np.inf))

    def locate(self, x: Floats) -> NDArray[np.int64]:
        """Return the cells (n,) of points (n,)."""
        return np.searchsorted(self.edges[1:-1], x, side="right").astype(np.int64)


class GridReference(ProductReference):
    """Product reference that is sampled by cells and places within them.

    With a `SecureGenerator`, `sample` draws cells by their integer masses. With another generator, which
    is never used for published draws, it samples the marginals.

    Examples:
        >>> from privot.integral.references import StandardNormal
        >>> grid = make_grid(StandardNormal(2))
        >>> grid.shape
        (1024, 1024)
        >>> sum(grid.axes[0].masses.tolist()) == 2**64
        True
    """

    def __init__(self, marginals: Sequence[Marginal], sizes: Sequence[int]) -> None:
        super().__init__(marginals)
        pairs = zip(marginals, sizes, strict=True)
        self.axes = tuple(Axis(marginal, marginal.edges(size)) for marginal, size in pairs)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of each coordinate."""
        return tuple(axis.size for axis in self.axes)

    def sample(self, n: int, generator: Generator, /) -> Floats:
        if not isinstance(generator, SecureGenerator):
            return super().sample(n, generator)
        levels = [generator.random(n) for _ in self.axes]
        drawn = [axis.draw(n, level) for axis, level in zip(self.axes, levels, strict=True)]
        return np.stack(drawn, axis=1)

    def locate(self, x: Floats) -> NDArray[np.int64]:
        """Return the index (n,) of each point's cell, in C order."""
        parts = [axis.locate(x[:, j]) for j, axis in enumerate(self.axes)]
        return np.asarray(np.ravel_multi_index(tuple(parts), self.shape), np.int64)

    def centers(self) -> Floats:
        """Return the median point of every cell, (number of cells, dim), in C order."""
        middles = np.meshgrid(*[axis.middles for axis in self.axes], indexing="ij")
        return np.stack([m.ravel() for m in middles], axis=1)

    def mean(self, values: Floats) -> float:
        """Return the mean of positive values (number of cells,), to a relative 10^−12."""
        table = values.reshape(self.shape)
        for axis in reversed(self.axes):
            table = table @ (axis.masses.astype(np.float64) / _TOTAL_MASS)
        return float(table)


@dataclass(frozen=True, repr=False)
class TabulatedTilt(Tilt):
    """Tilt that is constant on every cell: values (number of cells,), in C order."""

    kind: ClassVar[str] = "table"
    grid: GridReference
    values: Floats

    def __call__(self, x: Floats, /) -> Floats:
        return self.values[self.grid.locate(x)]

    def pack(self) -> Packed:
        return {}, {"values": self.values}  # the grid follows from the reference

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        grid, values = make_grid(reference), arrays["values"]
        if grid is None or values.shape != (math.prod(grid.shape),):
            raise PrivotError("the table does not fit the reference's grid: the model is damaged")
        return cls(grid, values)


def make_grid(reference: Reference) -> GridReference | None:
    """Return the reference divided into at most 2^20 cells; None if there is no suitable grid."""
    if isinstance(reference, GridReference):
        return reference
    if reference.marginals is None:
        return None
    sizes = [marginal.num_values for marginal in reference.marginals]
    num_discrete = math.prod(size for size in sizes if size is not None)
    continuous = sizes.count(None)
    if num_discrete > MOST_CELLS or any(size == 1 for size in sizes):
        return None
    root = (MOST_CELLS / num_discrete) ** (1 / max(continuous, 1))
    num_cells = min(_MAX_CELLS, int(root + 1e-9))  # of each continuous coordinate
    if continuous and num_cells < _MIN_CELLS:
        return None
    return GridReference(reference.marginals, [size or num_cells for size in sizes])


def tabulate(grid: GridReference, function: Callable[[Floats], Floats]) -> Floats:
    """Evaluate a function of points (n, dim) at the cells' centers; return values (number of cells,)."""
    centers = grid.centers()
    parts = [function(centers[i : i + _BLOCK]) for i in range(0, len(centers), _BLOCK)]
    return np.asarray(np.concatenate(parts), np.float64)


def find_root(log_z: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of the decreasing function log Z in [low, high], or the nearer end."""
    if log_z(low) <= 0:
        return low
    if log_z(high) >= 0:
        return high
    return float(brentq(log_z, low, high, xtol=1e-13, rtol=1e-14, maxiter=200))


def require_inside(reference: Reference, records: object) -> Floats:
    """Return records as points (n, dim) in the support; messages of refusals contain no values."""
    points = require_points(records, reference.dim)
    if len(points) == 0:
        raise PrivotError("records are empty: give at least one")
    if not reference.contains(points).all():
        raise PrivotError(
            "records lie outside the reference's support (or are not finite): project them to it "
            "by a public rule, or choose a wider reference"
        )
    return points
