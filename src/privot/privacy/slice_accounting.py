r"""Accounting of noisy random projections (slices): the guarantee of a run, and calibration.

`SlicedAccounting` contains the public settings of a run, which determine its privacy together with the
noise and the number of steps.

**Rényi curves.** With records X, fresh random directions U, and noise V of i.i.d. $N(0, σ²)$, a step
publishes $(U, XU + V)$. Given U it is a Gaussian mechanism. Its squared sensitivity H is random, with
the law of `privot.privacy.slice_sensitivity`. The average over H, which spends no δ on large H, gives

$$ e^{(α−1)D_α} = E\,e^{α(α−1)H/(2σ²)} =: M_α , \qquad ε(α) = \frac{\log M_α}{α − 1} . $$

**Fixed-size sampling without replacement**, `replace_one`: a step has a fresh uniformly random set of B
of N records, in uniformly random row order. With q = B/N (Wang, Balle, Kasiviswanathan 2019, Theorem 9),

$$ ε_{sub}(α) = \tfrac{1}{α−1} \log\Big(1 + q²\tbinom α2 \min\{4(e^{ε(2)}−1), 2e^{ε(2)}\}
   + \sum_{j=3}^{α} 2 q^j \tbinom αj e^{(j−1)ε(j)}\Big) . $$

**Padded Poisson sampling**, `zero_out`: each record is sampled with probability q. Sampled records fill
uniformly random slots of a public constant number of rows, and the other rows are blank. Given U and the
slots of the other records, the laws of the record's slot for the two neighbors are $N(0, σ²)$ and
$(1−q)N(0, σ²) + qN(z, σ²)$, with z the record's projection, and

$$ ε_{sub}(α) = \tfrac{1}{α−1} \log \sum_{l=0}^{α} \tbinom αl (1−q)^{α−l} q^l M_l ,
   \quad M_0 = M_1 = 1 . $$

For each H the divergence in the other order is smaller (Mironov, Talwar, Zhang 2019, Theorem 5), so its
average over H is smaller, too. Without padding, the number of noisy rows would reveal whether a record
is in the batch, and neither formula would hold. The two formulas hold for integer α ≥ 2.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from typing import Literal, NamedTuple, get_args

import numpy as np
import scipy

from privot.core import errors
from privot.privacy.guarantees import ApproximateDP, RenyiDP
from privot.privacy.rounding import check_delta, exactly, require_delta
from privot.privacy.slice_losses import SampledPair, composed_epsilon
from privot.privacy.slice_sensitivity import (
    CentralNeighboring,
    DiscreteLaw,
    Floats,
    ProjectedLength,
    Sampling,
    length_law,
    record_sensitivity,
)

Method = Literal["rdp", "pld"]

SAMPLED_ORDERS = np.array(
    [*range(2, 65), *range(68, 129, 4), *range(144, 257, 16), *range(288, 513, 32)], dtype=np.int64
)
FULL_BATCH_ORDERS = 1.0 + np.geomspace(1e-3, 1e6, 400)
# Bound on the relative error of sums of 512 positive terms, whose log-gammas of ~3000 lose 1e-16 each.
_ERROR = 1e-11
# Share of δ for overflowing batches of padded Poisson sampling.
_OVERFLOW_SHARE = 1 / 40
_MIN_NOISE = 1e-60  # smallest noise per sensitivity whose moments are floats
_COUNTS = {
    "dim": errors.MOST_DIMENSIONS,
    "num_projections": errors.MOST_PROJECTIONS,
    "records": errors.MOST_PEOPLE,
    "batch_size": errors.MOST_PEOPLE,
}
_GRID_CELLS = 160  # cells per ε/√steps of a grid of losses
_MAX_REFINEMENTS, _LARGE_DECREASE = 8, 2.5  # finer grids are tried if ε decreased by this factor


def full_batch_renyi(
    length: ProjectedLength, stddev: float, rate: float = 1.0
) -> tuple[Floats, Floats]:
    """Return orders and ε(α) of a step with all records, rounded up; `rate` must be 1."""
    assert rate == 1
    orders = FULL_BATCH_ORDERS
    moments = length.log_moment(orders * (orders - 1) / (2 * stddev**2))
    return orders, moments / (orders - 1) * (1 + _ERROR)


def without_replacement_renyi(
    length: ProjectedLength, stddev: float, rate: float
) -> tuple[Floats, Floats]:
    """Return orders and ε_sub(α) of a step with a batch drawn without replacement, rounded up."""
    j = np.arange(2, SAMPLED_ORDERS[-1] + 1)
    log_moments = _log_moments(length, stddev, j)
    log_factors = math.log(2) + log_moments
    log_factors[0] = min(math.log(4) + _log_expm1(log_moments[:1])[0], log_factors[0])
    return _log_sums(j, log_factors + j * math.log(rate), 0.0)


def padded_poisson_renyi(
    length: ProjectedLength, stddev: float, rate: float
) -> tuple[Floats, Floats]:
    """Return orders and ε_sub(α) of a step with a padded Poisson batch, rounded up."""
    # As Σ_l C(α,l)(1−q)^(α−l) q^l = 1, the sum is 1 + Σ_l C(α,l)(1−q)^(α−l) q^l (M_l − 1).
    j = np.arange(2, SAMPLED_ORDERS[-1] + 1)
    log_factors = _log_expm1(_log_moments(length, stddev, j)) + j * math.log(rate)
    log_not_sampled = math.log1p(-rate) if rate < 1 else -math.inf
    return _log_sums(j, log_factors, log_not_sampled)


_CURVES = {
    "none": full_batch_renyi,
    "padded_poisson": padded_poisson_renyi,
    "without_replacement": without_replacement_renyi,
}


def _log_moments(length: ProjectedLength, stddev: float, j: Floats) -> Floats:
    """Return log M_j for each order j, rounded up."""
    return length.log_moment(j * (j - 1) / (2 * stddev**2)) * (1 + 1e-15)


def _log_sums(j: Floats, log_factors: Floats, log_not_sampled: float) -> tuple[Floats, Floats]:
    """Return orders α, and log(1 + Σ_j C(α, j) e^(log_factors_j + (α−j) log_not_sampled))/(α−1)."""
    alpha = SAMPLED_ORDERS[:, None].astype(np.float64)
    remaining = np.maximum(alpha - j, 0)
    log_binomial = (
        scipy.special.gammaln(alpha + 1)
        - scipy.special.gammaln(j + 1)
        - scipy.special.gammaln(remaining + 1)
    )
    # At rate 1 only the term j = α is positive: 0 · log 0 counts as 0.
    with np.errstate(invalid="ignore"):
        log_rest = np.where(remaining > 0, remaining * log_not_sampled, 0.0)
    terms = np.where(j <= alpha, log_binomial + log_factors + log_rest, -np.inf)
    totals = np.logaddexp(0.0, scipy.special.logsumexp(terms, axis=1))
    return SAMPLED_ORDERS.astype(np.float64), totals / (SAMPLED_ORDERS - 1) * (1 + _ERROR)


def _log_expm1(x: Floats) -> Floats:
    """Return log(e^x − 1) for x > 0, without overflow."""
    return np.asarray(x + np.log(-np.expm1(-x)))


class Overflow(NamedTuple):
    """Number of rows of padded Poisson batches, and the δ spent on batches with more records."""

    delta: float
    rows: int


@dataclass(frozen=True)
class SlicedAccounting:
    """Privacy accounting of a run that publishes (U, XU + V) at every step.

    Arguments:
        dim: Number of coordinates of a record.
        num_projections: Number of directions, which are drawn at each step.
        records: Number of records.
        batch_size: Number of records of a step; the mean number for `padded_poisson`.
        sampling: Law of a step's batch; `none` takes all records.
        neighboring: Adjacency.
        radius: Public bound of the ℓ2 norms of records, which are clipped to it.
        non_negative: Whether records have no negative entry.
        orthonormal: Whether directions are an orthonormal frame, rather than independent.
        grid: Step to whose multiples projections are rounded; 0 for no rounding.
        unit: Owner of one record.

    >>> mnist = SlicedAccounting(
    ...     dim=784, num_projections=1000, records=60_000, batch_size=100, radius=0.5
    ... )
    >>> stddev = mnist.calibrate(epsilon=10.0, delta=1e-5, steps=60_000)
    >>> round(stddev, 3)
    0.748
    >>> print(mnist.guarantee(stddev, steps=60_000, delta=1e-5))
    ε = 10, δ = 1e-05, replace_one, per person

    Raises:
        PrivotError: if numbers are out of range, or no proof covers the sampling and adjacency.
    """

    dim: int
    num_projections: int
    records: int
    batch_size: int
    sampling: Sampling = "without_replacement"
    neighboring: CentralNeighboring = "replace_one"
    radius: float = 1.0
    non_negative: bool = False
    orthonormal: bool = False
    grid: float = 0.0
    unit: str = "person"

    def __post_init__(self) -> None:
        for name, most in _COUNTS.items():
            object.__setattr__(self, name, errors.require_count(name, getattr(self, name), most))
        if self.batch_size > self.records:
            raise errors.PrivotError(
                f"batch_size is {self.batch_size}: there are only {self.records} records; "
                "take a smaller batch"
            )
        if self.sampling == "none" and self.batch_size != self.records:
            raise errors.PrivotError(
                f"batch_size is {self.batch_size} with sampling 'none': every step then sees all "
                f"{self.records} records; set it to that, or choose a sampling"
            )
        _ = self.sensitivity, self.length  # which validate the rest
        _ = ApproximateDP(0.0, 0.0, self.neighboring, self.unit)

    @cached_property
    def sensitivity(self) -> float:
        """Sensitivity Δ, the largest distance of rows of neighboring runs."""
        return record_sensitivity(self.radius, self.neighboring, self.sampling, self.non_negative)

    @cached_property
    def length(self) -> ProjectedLength:
        """Distribution of the projected sensitivity."""
        return ProjectedLength(
            self.dim, self.num_projections, self.sensitivity, self.orthonormal, self.grid
        )

    @property
    def rate(self) -> float:
        """Probability q that a record is in a batch."""
        return self.batch_size / self.records

    def steps_of(self, epochs: float) -> int:
        """Return the number of steps that use each record `epochs` times on average, rounded up."""
        errors.require_finite("epochs", epochs, positive=True)
        return math.ceil(epochs * self.records / self.batch_size)

    def overflow(self, steps: int, delta: float) -> Overflow:
        """Return the number of rows of padded batches, and the δ spent on batches with more records.

        The number of rows is the smallest for which any step has more sampled records with probability
        at most δ/40. Records beyond it are left out. The cost is steps · P(Bin(records, rate) > rows),
        rounded up. It suffices because the number of sampled records has the same law for a real and a
        blank record: a run may be conditioned on no overflow, whose probability is the same for the two
        neighbors. For other samplings, whose batches have a fixed size, the result is (0, batch_size).
        """
        steps = errors.require_count("steps", steps, errors.MOST_STEPS)
        if self.sampling != "padded_poisson":
            return Overflow(0.0, self.batch_size)
        require_delta(delta, positive=True)

        def cost(rows: int) -> float:
            tail = float(scipy.special.bdtrc(rows, self.records, self.rate))
            return min(1.0, steps * tail * (1 + 1e-9)) if rows < self.records else 0.0

        enough = delta * _OVERFLOW_SHARE
        sizes = range(self.batch_size, self.records)
        rows = self.batch_size + bisect_left(sizes, True, key=lambda rows: cost(rows) <= enough)
        return Overflow(cost(rows), rows)

    def renyi(self, stddev: float, steps: int) -> RenyiDP:
        """Return the Rényi curve of `steps` releases, rounded up, given that no batch overflows."""
        errors.require_finite("stddev", stddev, positive=True)
        steps = errors.require_count("steps", steps, errors.MOST_STEPS)
        if stddev < _MIN_NOISE * self.sensitivity:
            raise errors.PrivotError(
                f"stddev is {stddev!r}: so little noise against a sensitivity of "
                f"{exactly(self.sensitivity)} promises nothing; give more"
            )
        orders, epsilons = _CURVES[self.sampling](self.length, stddev, self.rate)
        totals = steps * epsilons
        return RenyiDP(tuple(orders.tolist()), tuple(totals.tolist()), self.neighboring, self.unit)

    def epsilon(self, stddev: float, steps: int, delta: float, method: Method = "rdp") -> float:
        """Return ε at δ of `steps` releases with noise of `stddev`, rounded up; warn if δ > 1/records.

        The method is "rdp" (Rényi curves, tens of milliseconds), or "pld" (privacy-loss distributions, a
        second). The ε of "pld" is never larger, because it is the smaller of the two bounds.
        """
        return self._epsilon_at(stddev, steps, self._delta_left(steps, delta), method)

    def calibrate(self, epsilon: float, delta: float, steps: int, method: Method = "rdp") -> float:
        """Return the least stddev that is (ε, δ)-private, to a relative 1e-9 (1e-5 by "pld").

        The result is safe, because its ε was evaluated.

        Raises:
            PrivotError: if no noise reaches ε, or an argument is out of range.
        """
        errors.require_finite("epsilon", epsilon, positive=True)
        delta_left = self._delta_left(steps, delta)
        errors.require_choice("method", method, get_args(Method))
        stddev = _calibrated(self, epsilon, delta_left, steps, method)
        if not math.isfinite(stddev):
            raise errors.PrivotError(
                f"epsilon is {epsilon!r}: no amount of noise reaches it by method {method!r} at delta "
                f"{exactly(delta)} in {steps} steps; ask for a larger epsilon or fewer steps"
                + (", or use method 'pld', which reaches lower" if method == "rdp" else "")
            )
        return stddev

    def guarantee(
        self, stddev: float, steps: int, delta: float, method: Method = "rdp"
    ) -> ApproximateDP:
        """Return the guarantee of `steps` releases."""
        epsilon = self.epsilon(stddev, steps, delta, method)
        return ApproximateDP(epsilon, delta, self.neighboring, self.unit)

    @cached_property
    def _length_law(self) -> DiscreteLaw:
        return length_law(self.length)

    def _epsilon_at(self, stddev: float, steps: int, delta: float, method: Method) -> float:
        """Return ε at `delta`, which excludes the part spent on overflows."""
        errors.require_choice("method", method, get_args(Method))
        best = self.renyi(stddev, steps).to_approximate(delta).epsilon
        if method == "rdp" or best == 0:
            return best
        # The grid must be finer than the spread of one step's loss, about ε/(5√steps). It is chosen
        # by an upper bound of ε. If the result is much smaller, a finer grid follows; all results
        # are valid.
        for _ in range(_MAX_REFINEMENTS):
            grid = best / (_GRID_CELLS * math.sqrt(steps))
            before, best = best, min(best, self._epsilon_on_grid(grid, stddev, steps, delta))
            if best > before / _LARGE_DECREASE:
                break
        return best

    def _epsilon_on_grid(self, grid: float, stddev: float, steps: int, delta: float) -> float:
        """Return ε from privacy-loss distributions on a grid of losses of step `grid`."""
        values, weights = self._length_law
        pair = SampledPair(np.sqrt(values) / stddev, weights, self.rate)
        top_mass = 1e-3 * delta / steps
        if self.sampling == "padded_poisson" and self.rate < 1:
            loss = pair.losses(grid, top_mass)
            return max(composed_epsilon(law, steps, delta) for law in (loss, loss.swapped()))
        return composed_epsilon(pair.symmetrized_losses(grid, top_mass), steps, delta)

    def _delta_left(self, steps: int, delta: float) -> float:
        """Return δ minus the part spent on overflowing batches."""
        require_delta(delta, positive=True)
        steps = errors.require_count("steps", steps, errors.MOST_STEPS)
        check_delta(delta, self.records)
        spent = self.overflow(steps, delta).delta
        return math.nextafter(delta - spent, 0.0) if spent else delta


@lru_cache(maxsize=64)  # a plan, its run and its report need the result
def _calibrated(
    setting: SlicedAccounting, epsilon: float, delta: float, steps: int, method: Method
) -> float:
    """Return the least stddev at `delta`, which excludes the part spent on overflows, or infinity."""
    epsilon_at = partial(setting._epsilon_at, steps=steps, delta=delta)
    by_renyi, by_losses = partial(epsilon_at, method="rdp"), partial(epsilon_at, method="pld")
    stddev = _least_stddev(by_renyi, epsilon, setting.sensitivity, width=1.0, tolerance=1e-9)
    if method == "rdp":
        return stddev
    # An evaluation takes a second, so the search begins near the result, which is only little smaller.
    start = stddev if math.isfinite(stddev) else setting.sensitivity
    return _least_stddev(by_losses, epsilon, start, width=0.08, tolerance=1e-5)


def _least_stddev(
    epsilon_at: Callable[[float], float],
    target: float,
    start: float,
    width: float,
    tolerance: float,
) -> float:
    """Return the least σ with epsilon_at(σ) ≤ target, up to `tolerance` in log σ.

    Because of rounding errors, ε may not decrease everywhere in σ, so only a σ that was evaluated is
    returned. The search leaves `start` by factors that grow from 1 + `width`. The result is infinite if
    1e9 times `start` is too little.
    """

    @cache
    def excess(log_stddev: float) -> float:
        epsilon = epsilon_at(math.exp(log_stddev))
        value = math.log(min(max(epsilon, 1e-300), 1e300)) - math.log(target)
        # Logarithms of neighboring floats may be equal, so the sign is set explicitly.
        return max(value, 1e-18) if epsilon > target else min(value, 0.0)

    near = far = math.log(start)
    too_little = excess(near) > 0
    move = math.log1p(width) if too_little else -math.log1p(width)
    while (excess(far) > 0) == too_little:
        near, far, move = far, far + move, 1.5 * move
        if far > math.log(start) + math.log(1e9):
            return math.inf
    safe = float(scipy.optimize.brentq(excess, near, far, xtol=tolerance / 4))
    while excess(safe) > 0:
        safe += tolerance / 2
    return math.exp(safe)
