r"""Paths in time: posterior of numbers that drift over waves of reports, and of a sudden change.

For each of K numbers u, wave t has the log-likelihood $h_t u − \tfrac12 D_t u^2$. The prior of a
number's path is Gaussian, with variance 4 at the start (u is on the scale of logits). With time scaled
to 0 … 1, the deviation from the start is a **random walk** with covariance $k_1$, or an **integrated
random walk**, whose slope is a random walk, with covariance $k_2$:

$$ k_1(s, t) = q \min(s, t) , \qquad
   k_2(s, t) = q \Bigl(s t + \frac{m^2 |t − s|}{2} + \frac{m^3}{3}\Bigr) ,\quad m = \min(s, t) . $$

The rate of drift, q, and the kernel are inferred from the reports. With C the prior covariance of a path
at the waves' times and D diagonal,

$$ \ln P(\text{reports} \mid q) = \tfrac12 h^⊤ Σ h − \tfrac12 \ln \det(I + C D) , \qquad
   Σ = (C^{-1} + D)^{-1} , $$

exactly. All K numbers have the same q and kernel. Paths are averaged over q = 0, 16 other values of q
and both kernels, with this evidence as weights, so bands include the uncertainty about the drift. A time
between waves is treated as a wave without reports.

**Sudden change.** A step of every number at wave τ, of variance s² in u, adds $s^2 w w^⊤$ to C, where w
is 0 before τ and 1 from τ on. A step has prior probability 0.02, uniform over the values of s² and, over
τ, proportional to the time since the wave before. Paths with and without a step are averaged. So waves
on the same side of a sudden change are still pooled as far as their drift allows. With
$V = (C + D^{-1})^{-1}$, the posterior of the step has mean and variance

$$ \hat c = \frac{s^2 a}{1 + s^2 b} ,\quad \frac{s^2}{1 + s^2 b} , \qquad
   a = w^⊤ (h − D Σ h) ,\quad b = w^⊤ V w , $$

the mean of the path changes by $\hat c\,(I − C V) w$, and the log evidence by
$\tfrac12 s^2 a^2 / (1 + s^2 b) − \tfrac12 \ln(1 + s^2 b)$.

The **p-value** of a change has as its statistic the largest evidence of a step over τ, averaged over q,
kernels and s². Its null distribution is simulated: paths without a step are drawn with q and the kernel
from their posterior, and reported with the precisions of the waves.

**Shares.** The distribution of a column at time t is $p_t = \sum_b θ_{tb} f_b$ with fixed **pieces**
$f_b$ and shares θ that change. The pieces of a categorical column are its values; the pieces of numbers
and points are bumps of the distribution of all waves together. The slope and information of a wave in θ
are transformed to coordinates u, $θ = \bar θ + B u$, in which the prior covariance of the shares,
$\mathrm{diag}(\bar θ) − \bar θ \bar θ^⊤$ (equal variances of logits), is the identity, and the
information of all waves together is diagonal. Off-diagonal information of a single wave is ignored.
Slopes are exact, so the mode of the paths is a stationary point of the posterior.

Privacy: functions of reports, hence post-processing.

References:
    Kalman, *A new approach to linear filtering and prediction problems* (1960); Wahba, *Improper priors,
    spline smoothing and the problem of guarding against model errors in regression* (1978); MacKay,
    *Bayesian interpolation* (1992).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from privot.schema.domains import Array

_START_VARIANCE = 4.0
_DRIFTS = np.append(0.0, np.logspace(-4, 1.5, 16))  # values of q
_STEP_VARIANCES = np.array([0.01, 0.03, 0.1, 0.3, 1.0])  # values of s²
_STEP_PROBABILITY = 0.02  # prior probability of a step
_MIN_WEIGHT = 1e-4  # least weight of a term in averages
_MIN_SHARE = 1e-9  # least share of a piece, so that likelihoods are positive


@dataclass(frozen=True, eq=False)
class Paths:
    """Posterior of the paths of K numbers at T times."""

    times: Array  # times, increasing (T,)
    slopes: Array  # h (T, K)
    precisions: Array  # D ≥ 0 (T, K)

    @cached_property
    def _unit_times(self) -> Array:
        """Times scaled to 0 … 1."""
        span = self.times[-1] - self.times[0]
        return (self.times - self.times[0]) / (span or 1.0)

    @cached_property
    def _posteriors(self) -> list[_Posterior]:
        """Posteriors for both kernels and every q; for q = 0 the kernels are equal."""
        roots = np.sqrt(self.precisions.T)
        walk = random_walk_covariance(self._unit_times)
        integrated = integrated_walk_covariance(self._unit_times)
        pairs = [(walk, q) for q in _DRIFTS] + [(integrated, q) for q in _DRIFTS[1:]]
        return [_Posterior.of(_START_VARIANCE + q * kernel, roots) for kernel, q in pairs]

    @cached_property
    def _log_evidence(self) -> Array:
        """Log evidence of each posterior, without a step."""
        return np.array([model.log_evidence(self.slopes.T) for model in self._posteriors])

    @cached_property
    def _step_indicators(self) -> Array:
        """Vectors w of steps at each wave but the first, as columns (T, T − 1)."""
        return np.tril(np.ones((len(self.times), len(self.times))))[:, 1:]

    @cached_property
    def _weights(self) -> list[_Weights]:
        """Weights of every posterior, which sum to 1."""
        gaps = np.diff(self._unit_times)
        priors = _STEP_PROBABILITY * gaps / max(gaps.sum(), 1e-300) / len(_STEP_VARIANCES)
        pairs = [*zip(self._log_evidence, self._step_gains(self.slopes.T), strict=True)]
        highest = max(log + gain.max(initial=0.0) for log, gain in pairs)
        weights = []
        for log, gain in pairs:
            without = (1 - _STEP_PROBABILITY) * np.exp(log - highest)
            weights.append((without, priors * np.exp(log + gain - highest)))
        total = sum(without + steps.sum() for without, steps in weights)
        return [_Weights(float(without / total), steps / total) for without, steps in weights]

    def _step_gains(self, slopes: Array) -> list[Array]:
        """Return the gains in log evidence by steps, for each posterior and slopes (K, T)."""
        return [model.step_gains(slopes, self._step_indicators) for model in self._posteriors]

    @cached_property
    def _moments(self) -> list[_Moments]:
        """Moments of the paths, for every posterior of enough weight."""
        return [
            model.moments(self.slopes.T, self._step_indicators, weights)
            for weights, model in zip(self._weights, self._posteriors, strict=True)
            if weights.total > _MIN_WEIGHT
        ]

    @cached_property
    def mean(self) -> Array:
        """Posterior means (T, K)."""
        total = sum(moments.weights.sum() for moments in self._moments)
        means = [np.tensordot(moments.weights, moments.means, 1) for moments in self._moments]
        return np.asarray(np.sum(means, axis=0).T / total)

    @cached_property
    def covariance(self) -> Array:
        """Posterior covariances of each number between times (K, T, T)."""
        total, center = sum(moments.weights.sum() for moments in self._moments), self.mean.T
        covariance = np.zeros((self.slopes.shape[1], len(self.times), len(self.times)))
        for weights, means, within in self._moments:
            between = ((means - center) * np.sqrt(weights)[:, None, None]).swapaxes(0, 1)
            covariance += within + between.swapaxes(1, 2) @ between
        return covariance / total

    def with_wave(self, time: float, slopes: Array, precisions: Array) -> Paths:
        """Return the posterior of paths given one more wave, with slopes and precisions (K,)."""
        place = int(np.searchsorted(self.times, time))
        return Paths(
            np.insert(self.times, place, time),
            np.insert(self.slopes, place, slopes, axis=0),
            np.insert(self.precisions, place, precisions, axis=0),
        )

    def at(self, time: float) -> tuple[Array, Array]:
        """Return means and variances (K,) at a time between the first and the last."""
        place = int(np.searchsorted(self.times, time))
        if self.times[place] == time:
            return self.mean[place], self.covariance[:, place, place]
        no_reports = np.zeros(self.slopes.shape[1])
        with_time = self.with_wave(time, no_reports, no_reports)
        return with_time.mean[place], with_time.covariance[:, place, place]

    def step_evidence(self, slopes: Array | None = None) -> Array:
        """Compute the log evidence (T − 1,) of a step at each wave but the first, against no step.

        `slopes` are h (T, K), by default those of the waves.
        """
        slopes = (self.slopes if slopes is None else slopes).T
        without = np.array([model.log_evidence(slopes) for model in self._posteriors])
        with_step = without[:, None, None] + np.array(self._step_gains(slopes))
        highest = with_step.max()
        # Sums over q and kernels, which are equally likely; mean over s².
        total_with = np.exp(with_step - highest).sum(axis=0).mean(axis=0)
        total_without = np.exp(without - without.max()).sum()
        log_with = np.log(np.maximum(total_with, 1e-300)) + highest
        return np.asarray(log_with - np.log(total_without) - without.max())

    def p_value(self, simulations: int, seed: int) -> float:
        """Compute the p-value of the largest evidence of a step, by simulating paths without a step."""
        rng, observed = np.random.default_rng(seed), float(self.step_evidence().max())
        evidence = np.exp(self._log_evidence - self._log_evidence.max())
        drawn = rng.choice(len(evidence), simulations, p=evidence / evidence.sum())
        exceeding = 0
        for number in drawn:
            path = self._posteriors[number].draw_prior(rng)
            noise = rng.standard_normal(path.shape)
            slopes = self.precisions.T * path + np.sqrt(self.precisions.T) * noise
            exceeding += float(self.step_evidence(slopes.T).max()) >= observed
        return (exceeding + 1) / (simulations + 1)


def random_walk_covariance(times: Array) -> Array:
    """Compute the covariance k₁ (T, T) of a random walk at times (T,), for q = 1."""
    return np.asarray(np.minimum.outer(times, times))


def integrated_walk_covariance(times: Array) -> Array:
    """Compute the covariance k₂ (T, T) of an integrated random walk at times (T,), for q = 1."""
    least, gap = np.minimum.outer(times, times), np.abs(np.subtract.outer(times, times))
    return np.asarray(np.multiply.outer(times, times) + least**2 * gap / 2 + least**3 / 3)


class _Weights(NamedTuple):
    """Weights of one kernel and one q in averages of paths."""

    without: float  # weight without a step
    steps: Array  # weights of a step of each variance s² at each wave but the first (sizes, T − 1)

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.without + self.steps.sum())


class _Moments(NamedTuple):
    """Moments of the paths for one kernel and one q: without a step, and with each of n − 1 steps."""

    weights: Array  # weight of each case (n,)
    means: Array  # means in each case (n, K, T)
    covariance: Array  # weighted sum of the covariances over cases (K, T, T)


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Posterior of the paths of K numbers for one kernel and one q."""

    prior: Array  # C (T, T)
    covariance: Array  # Σ (K, T, T)
    v: Array  # V (K, T, T)
    precisions: Array  # D (K, T)
    half_log_det: float  # ½ ln det(I + C D), summed over numbers

    @classmethod
    def of(cls, prior: Array, roots: Array) -> Self:
        """Compute the posterior for a prior covariance C (T, T) and roots D^½ (K, T)."""
        # V = D^½ (I + D^½ C D^½)⁻¹ D^½ exists also if precisions are 0.
        scaled = roots[:, :, None] * prior * roots[:, None, :] + np.eye(len(prior))
        v = roots[:, :, None] * np.linalg.inv(scaled) * roots[:, None, :]
        half_log_det = float(np.linalg.slogdet(scaled)[1].sum()) / 2
        return cls(prior, prior - prior @ v @ prior, v, roots**2, half_log_det)

    def mean(self, slopes: Array) -> Array:
        """Compute posterior means (K, T) for slopes h (K, T)."""
        return np.asarray((self.covariance @ slopes[:, :, None])[:, :, 0])

    def log_evidence(self, slopes: Array) -> float:
        """Compute the log evidence for slopes h (K, T), up to a constant of the reports."""
        return float((slopes * self.mean(slopes)).sum()) / 2 - self.half_log_det

    def _step_terms(self, slopes: Array, indicators: Array) -> tuple[Array, Array]:
        """Compute a and b of every number and step (K, T − 1), for steps w (T, T − 1)."""
        b = (indicators * (self.v @ indicators)).sum(axis=1)
        return (slopes - self.precisions * self.mean(slopes)) @ indicators, b

    def step_gains(self, slopes: Array, indicators: Array) -> Array:
        """Compute the gain in log evidence by a step of each variance s² at each wave (sizes, T − 1)."""
        a, b = self._step_terms(slopes, indicators)
        ratio = 1 + _STEP_VARIANCES[:, None, None] * b
        gain = _STEP_VARIANCES[:, None, None] * a**2 / ratio / 2 - np.log(ratio) / 2
        return np.asarray(gain.sum(axis=1))

    def moments(self, slopes: Array, indicators: Array, weights: _Weights) -> _Moments:
        """Compute moments of the paths without a step, and with each step of enough weight."""
        a, b = self._step_terms(slopes, indicators)
        min_weight = _MIN_WEIGHT * weights.total / weights.steps.size
        sizes, waves = np.nonzero(weights.steps > min_weight)
        step_weights = weights.steps[sizes, waves]
        # Change of a path by a unit step, (I − C V) w.
        changes = indicators.T - (self.prior @ self.v @ indicators).swapaxes(1, 2)
        s2 = _STEP_VARIANCES[sizes, None]
        variance = s2 / (1 + s2 * b[:, waves].T)
        shifts = (variance * a[:, waves].T)[:, :, None] * changes[:, waves].swapaxes(0, 1)
        means = self.mean(slopes) + np.concatenate([np.zeros((1, *shifts.shape[1:])), shifts])
        roots = changes[:, waves] * np.sqrt(step_weights[:, None] * variance).T[:, :, None]
        all_weights = np.append(weights.without, step_weights)
        covariance = all_weights.sum() * self.covariance + roots.swapaxes(1, 2) @ roots
        return _Moments(all_weights, means, covariance)

    def draw_prior(self, rng: np.random.Generator) -> Array:
        """Draw paths (K, T) from the prior."""
        values, vectors = np.linalg.eigh(self.prior)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(rng.standard_normal((len(self.covariance), len(root))) @ root.T)


class ShareLikelihood(NamedTuple):
    """Log-likelihood of one column's shares θ in one wave, expanded to second order."""

    slope: Array  # slope in θ (pieces,)
    information: Array  # information in θ (pieces, pieces)


@dataclass(frozen=True, eq=False)
class ShareCoordinates:
    """Coordinates u (K,) of one column's shares θ = θ̄ + B u, which drift independently."""

    shares: Array  # θ̄ of the pieces (pieces,)
    basis: Array  # B (pieces, K)

    @classmethod
    def of(cls, shares: Array, likelihoods: Sequence[ShareLikelihood]) -> Self:
        """Find the basis in which the prior covariance is the identity and the information diagonal.

        Examples:
            >>> wave = ShareLikelihood(np.zeros(2), np.diag([4.0, 4.0]))
            >>> abs(ShareCoordinates.of(np.array([0.5, 0.5]), [wave]).basis).round(2).tolist()
            [[0.5], [0.5]]
        """
        information = np.sum([wave.information for wave in likelihoods], axis=0)
        shares = np.maximum(shares, _MIN_SHARE) / np.maximum(shares, _MIN_SHARE).sum()
        values, vectors = np.linalg.eigh(np.diag(shares) - np.outer(shares, shares))
        positive = values > 1e-10 * values.max()
        root = vectors[:, positive] * np.sqrt(values[positive])
        _, rotation = np.linalg.eigh(root.T @ information @ root)
        return cls(shares, root @ rotation)

    def at(self, path: Array) -> Array:
        """Return the shares θ (pieces,) at coordinates u = `path` (K,), clipped to be positive."""
        shares = np.maximum(self.shares + self.basis @ path, _MIN_SHARE)
        return np.asarray(shares / shares.sum())

    def project(self, likelihood: ShareLikelihood, path: Array) -> tuple[Array, Array]:
        """Convert a likelihood that was expanded around u = `path` (K,) to h and D (K,)."""
        product = likelihood.information @ self.basis
        precision = np.maximum((self.basis * product).sum(axis=0), 0.0)
        return self.basis.T @ likelihood.slope + precision * path, precision

    def coordinates_of(self, shares: Array) -> Array:
        """Return the coordinates u (K,) of shares (pieces,)."""
        return np.asarray(np.linalg.lstsq(self.basis, shares - self.shares, rcond=None)[0])


@dataclass(frozen=True, eq=False)
class ShareSeries:
    """Posterior of one column's shares over the waves."""

    coordinates: ShareCoordinates
    paths: Paths

    @classmethod
    def of(
        cls,
        coordinates: ShareCoordinates,
        times: Array,
        likelihoods: Sequence[ShareLikelihood],
        around: Sequence[Array] | Array,
    ) -> Self:
        """Build the series from each wave's likelihood, expanded around coordinates u (T, K)."""
        projected = map(coordinates.project, likelihoods, around)
        slopes, precisions = map(np.array, zip(*projected, strict=True))
        return cls(coordinates, Paths(times, slopes, precisions))

    def with_wave(self, time: float, likelihood: ShareLikelihood, around: Array) -> ShareSeries:
        """Return the series with a wave added, whose likelihood is expanded around u (K,)."""
        projected = self.coordinates.project(likelihood, around)
        return ShareSeries(self.coordinates, self.paths.with_wave(time, *projected))


class ShareRatio(NamedTuple):
    """Ratio of weighted sums of shares at every wave, which is the share of a value or a mean."""

    series: ShareSeries  # series of the pieces' shares
    numerator: Array  # weight of each piece in the numerator (T, pieces)
    denominator: Array  # weight of each piece in the denominator (T, pieces)
