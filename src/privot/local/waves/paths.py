r"""Paths in time: posterior of numbers that drift over waves of reports, and of a sudden change.

For each of K numbers u, wave t has the log-likelihood $h_t u − \tfrac12 D_t u^2$. The prior of a
number's path is Gaussian, with variance 4 at the start (u is on the scale of logits). The path is a
**random walk** or an **integrated random walk** (whose slope is a random walk), with time scaled to 0 …
1:

$$ k_1(s, t) = q \min(s, t) , \qquad
   k_2(s, t) = q \Bigl(s t + \frac{m^2 |t − s|}{2} + \frac{m^3}{3}\Bigr) ,\quad m = \min(s, t) . $$

The rate of drift, q, and the kernel are inferred from the reports: with K the kernel's matrix,

$$ \ln P(\text{reports} \mid q) = \tfrac12 h^⊤ Σ h − \tfrac12 \ln \det(I + K D) , \qquad
   Σ = (K^{-1} + D)^{-1} , $$

exactly. Paths are averaged over q = 0 and 16 other values and over both kernels, with this evidence as
weights. q and the kernel are common to all K numbers. Bands therefore include the uncertainty about the
drift. A time between waves is treated as a wave without reports.

**Sudden change.** A step of every number at wave τ, of variance s² in u, adds $s^2 w w^⊤$ to K, where w
is 0 before τ and 1 from τ on. A step has prior probability 0.02, uniform over the values of s² and, over
τ, proportional to the time since the wave before; paths with and without a step are averaged. So after
a sudden change, waves on the same side of it are still pooled as far as their drift allows. With
$V = (K + D^{-1})^{-1}$, the posterior of the step has mean and variance

$$ \hat c = \frac{s^2 a}{1 + s^2 b} ,\quad \frac{s^2}{1 + s^2 b} , \qquad
   a = w^⊤ (h − D Σ h) ,\quad b = w^⊤ V w , $$

the mean of the path changes by $\hat c\,(I − K V) w$, and the log evidence by
$\tfrac12 s^2 a^2 / (1 + s^2 b) − \tfrac12 \ln(1 + s^2 b)$.

The **p-value** of a change is that of the largest evidence of a step, averaged over q, kernels and s².
Its null distribution is simulated: paths without a step, with the estimated drift, are reported with the
waves' own noise.

**Shares.** The distribution of a column at time t is $p_t = \sum_b θ_{tb} h_b$ with fixed **pieces**
$h_b$ and shares θ that change. The pieces of a categorical column are its values; those of numbers and
places are bumps of the distribution of all waves together. The slope and information of a wave in θ are
transformed to coordinates $θ = \bar θ + B u$ in which the prior covariance of the shares,
$\mathrm{diag}(\bar θ) − \bar θ \bar θ^⊤$ (equal variances of logits), is the identity and the
information of all waves together is diagonal. Off-diagonal information of a single wave is ignored.
Slopes are exact, so the mode of the paths is a stationary point of the likelihood.

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
_MIN_WEIGHT = 1e-4  # terms of smaller weight are left out of averages
_MIN_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class Paths:
    """Posterior of the paths of K numbers at T times."""

    times: Array  # times, increasing (T,)
    slopes: Array  # h (T, K)
    precisions: Array  # D ≥ 0 (T, K)

    @cached_property
    def _unit_times(self) -> Array:
        span = self.times[-1] - self.times[0]
        return (self.times - self.times[0]) / (span or 1.0)

    @cached_property
    def _kernels(self) -> list[_Kernel]:
        """All kernels, for every q; with q = 0 both kernels are the same."""
        roots = np.sqrt(self.precisions.T)
        kernels = []
        for kernel in (random_walk, random_slope):
            unit = kernel(self._unit_times)
            for drift in _DRIFTS[0 if kernel is random_walk else 1 :]:
                kernels.append(_Kernel.of(_START_VARIANCE + drift * unit, roots, float(drift)))
        return kernels

    @cached_property
    def weights(self) -> Array:
        """Weights of all kernels without a step, proportional to their evidence, with sum 1."""
        evidence = np.exp(self._evidence - self._evidence.max())
        return np.asarray(evidence / evidence.sum())

    @cached_property
    def _evidence(self) -> Array:
        return np.array([each.evidence(self.slopes.T) for each in self._kernels])

    @cached_property
    def _step_indicators(self) -> Array:
        """Vectors w of steps at each wave but the first, as columns (T, T − 1)."""
        return np.tril(np.ones((len(self.times), len(self.times))))[:, 1:]

    @cached_property
    def _step_weights(self) -> list[_StepWeights]:
        """Weights of every kernel, with sum 1 over all."""
        gaps = np.diff(self._unit_times)
        priors = _STEP_PROBABILITY * gaps / max(gaps.sum(), 1e-300) / len(_STEP_VARIANCES)
        gains = [each.steps(self.slopes.T, self._step_indicators) for each in self._kernels]
        pairs = [*zip(self._evidence, gains, strict=True)]
        most = max(log + gain.max(initial=0.0) for log, gain in pairs)
        weights = []
        for log, gain in pairs:
            without = (1 - _STEP_PROBABILITY) * np.exp(log - most)
            weights.append((without, priors * np.exp(log + gain - most)))
        total = sum(without + steps.sum() for without, steps in weights)
        return [_StepWeights(float(without / total), steps / total) for without, steps in weights]

    @property
    def drift(self) -> float:
        """Posterior mean of q, the variance in logits that a path gains from the first to last wave."""
        pairs = zip(self._step_weights, self._kernels, strict=True)
        return float(sum(weights.total * each.drift for weights, each in pairs))

    @cached_property
    def _moments(self) -> list[_Moments]:
        """Moments of the paths of all kernels of enough weight."""
        return [
            each.moments(self.slopes.T, self._step_indicators, weights)
            for weights, each in zip(self._step_weights, self._kernels, strict=True)
            if weights.total > _MIN_WEIGHT
        ]

    @cached_property
    def mean(self) -> Array:
        """Posterior means (T, K)."""
        total = sum(each.weights.sum() for each in self._moments)
        means = [np.tensordot(each.weights, each.means, 1) for each in self._moments]
        return np.asarray(np.sum(means, axis=0).T / total)

    @cached_property
    def covariance(self) -> Array:
        """Posterior covariances of each number between times (K, T, T)."""
        total, center = sum(each.weights.sum() for each in self._moments), self.mean.T
        covariance = np.zeros((self.slopes.shape[1], len(self.times), len(self.times)))
        for weights, means, within in self._moments:
            between = ((means - center) * np.sqrt(weights)[:, None, None]).swapaxes(0, 1)
            covariance += within + between.swapaxes(1, 2) @ between
        return covariance / total

    def with_wave(self, time: float, slopes: Array, precisions: Array) -> Paths:
        """Return the paths with a wave added, of these slopes and precisions (K,)."""
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
        nothing = np.zeros(self.slopes.shape[1])
        wider = self.with_wave(time, nothing, nothing)
        return wider.mean[place], wider.covariance[:, place, place]

    def steps(self) -> Array:
        """Compute the log evidence of a step at each wave but the first, against none (T − 1,)."""
        return self._steps(self.slopes.T)

    def _steps(self, slopes: Array) -> Array:
        logs = np.array([each.evidence(slopes) for each in self._kernels])
        gains = np.array([each.steps(slopes, self._step_indicators) for each in self._kernels])
        joint = logs[:, None, None] + gains
        highest = joint.max()
        with_step = np.exp(joint - highest).sum(axis=0).mean(axis=0)
        without = np.exp(logs - logs.max()).sum()
        logs_with = np.log(np.maximum(with_step, 1e-300)) + highest
        return np.asarray(logs_with - np.log(without) - logs.max())

    def p_value(self, simulations: int, seed: int) -> float:
        """Compute the p-value of the largest evidence of a step, by simulation of paths without one."""
        rng, observed = np.random.default_rng(seed), float(self.steps().max())
        chosen = rng.choice(len(self._kernels), simulations, p=self.weights)
        exceeding = 0
        for number in chosen:
            path = self._kernels[number].draw(rng)
            noise = rng.standard_normal(path.shape)
            slopes = self.precisions.T * path + np.sqrt(self.precisions.T) * noise
            exceeding += float(self._steps(slopes).max()) >= observed
        return (exceeding + 1) / (simulations + 1)


def random_walk(times: Array) -> Array:
    """Compute k₁ for q = 1 (T, T)."""
    return np.asarray(np.minimum.outer(times, times))


def random_slope(times: Array) -> Array:
    """Compute k₂ for q = 1 (T, T)."""
    least, gap = np.minimum.outer(times, times), np.abs(np.subtract.outer(times, times))
    return np.asarray(np.multiply.outer(times, times) + least**2 * gap / 2 + least**3 / 3)


class _StepWeights(NamedTuple):
    """Posterior weights of one kernel."""

    without: float  # without a step
    steps: Array  # with a step of each variance s² at each wave but the first (sizes, T − 1)

    @property
    def total(self) -> float:
        """Weight of the kernel."""
        return float(self.without + self.steps.sum())


class _Moments(NamedTuple):
    """Moments of the paths of one kernel, without a step (first) and with n − 1 steps."""

    weights: Array  # (n,)
    means: Array  # (n, K, T)
    covariance: Array  # sum of the covariances times their weights (K, T, T)


@dataclass(frozen=True, eq=False)
class _Kernel:
    """Posterior of the paths for one kernel and one q; arrays with a first axis K are by number."""

    prior: Array  # K (T, T)
    posterior: Array  # Σ (K, T, T)
    inner: Array  # D^½ B⁻¹ D^½, of B = I + D^½ K D^½
    precisions: Array  # D (K, T)
    half_log_det: float
    drift: float

    @classmethod
    def of(cls, prior: Array, roots: Array, drift: float) -> _Kernel:
        """Compute the posterior for a prior covariance (T, T) and roots D^½ (K, T)."""
        b = roots[:, :, None] * prior * roots[:, None, :] + np.eye(len(prior))
        inner = roots[:, :, None] * np.linalg.inv(b) * roots[:, None, :]
        half_log_det = float(np.linalg.slogdet(b)[1].sum()) / 2
        return cls(prior, prior - prior @ inner @ prior, inner, roots**2, half_log_det, drift)

    def mean(self, slopes: Array) -> Array:
        """Compute posterior means (K, T) for slopes h (K, T)."""
        return np.asarray((self.posterior @ slopes[:, :, None])[:, :, 0])

    def evidence(self, slopes: Array) -> float:
        """Compute the log evidence for slopes h (K, T), up to a constant of the reports."""
        return float((slopes * self.mean(slopes)).sum()) / 2 - self.half_log_det

    def _step_terms(self, slopes: Array, indicators: Array) -> tuple[Array, Array]:
        """Compute a and b of every number and step (K, T − 1), for steps w (T, T − 1)."""
        b = (indicators * (self.inner @ indicators)).sum(axis=1)
        return (slopes - self.precisions * self.mean(slopes)) @ indicators, b

    def steps(self, slopes: Array, indicators: Array) -> Array:
        """Compute the gain in log evidence by a step of each variance s² at each wave (sizes, T − 1)."""
        a, b = self._step_terms(slopes, indicators)
        ratio = 1 + _STEP_VARIANCES[:, None, None] * b
        gain = _STEP_VARIANCES[:, None, None] * a**2 / ratio / 2 - np.log(ratio) / 2
        return np.asarray(gain.sum(axis=1))

    def moments(self, slopes: Array, indicators: Array, of: _StepWeights) -> _Moments:
        """Compute moments of paths without a step, and with each step w that has enough weight."""
        a, b = self._step_terms(slopes, indicators)
        sizes, waves = np.nonzero(of.steps > _MIN_WEIGHT * of.total / of.steps.size)
        weights = np.append(of.without, of.steps[sizes, waves])
        # The change of a path by a unit step: (I − K V) w.
        changes = indicators.T - (self.prior @ self.inner @ indicators).swapaxes(1, 2)
        s2 = _STEP_VARIANCES[sizes, None]
        variance = s2 / (1 + s2 * b[:, waves].T)
        shifts = (variance * a[:, waves].T)[:, :, None] * changes[:, waves].swapaxes(0, 1)
        means = self.mean(slopes) + np.concatenate([np.zeros((1, *shifts.shape[1:])), shifts])
        roots = changes[:, waves] * np.sqrt(weights[1:, None] * variance).T[:, :, None]
        covariance = weights.sum() * self.posterior + roots.swapaxes(1, 2) @ roots
        return _Moments(weights, means, covariance)

    def draw(self, rng: np.random.Generator) -> Array:
        """Draw paths (K, T) from the prior."""
        values, vectors = np.linalg.eigh(self.prior)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(rng.standard_normal((len(self.posterior), len(root))) @ root.T)


class ShareLikelihood(NamedTuple):
    """Log-likelihood of one column's shares in one wave, expanded to second order."""

    slope: Array  # (pieces,)
    information: Array  # (pieces, pieces)


@dataclass(frozen=True, eq=False)
class ShareCoordinates:
    """Coordinates u of one column's shares, θ = θ̄ + B u, which drift independently."""

    shares: Array  # θ̄ of the pieces (pieces,)
    basis: Array  # B (pieces, K)

    @classmethod
    def of(cls, shares: Array, likelihoods: Sequence[ShareLikelihood]) -> Self:
        """Find the basis in which the prior is isotropic and the waves' joint information diagonal.

        Examples:
            >>> wave = ShareLikelihood(np.zeros(2), np.diag([4.0, 4.0]))
            >>> abs(ShareCoordinates.of(np.array([0.5, 0.5]), [wave]).basis).round(2).tolist()
            [[0.5], [0.5]]
        """
        information = np.sum([each.information for each in likelihoods], axis=0)
        shares = np.maximum(shares, _MIN_SHARE) / np.maximum(shares, _MIN_SHARE).sum()
        values, vectors = np.linalg.eigh(np.diag(shares) - np.outer(shares, shares))
        positive = values > 1e-10 * values.max()
        root = vectors[:, positive] * np.sqrt(values[positive])
        _, turn = np.linalg.eigh(root.T @ information @ root)
        return cls(shares, root @ turn)

    def at(self, path: Array) -> Array:
        """Return the shares θ (pieces,) at coordinates u (K,), clipped to be positive."""
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
    """One column's shares over the waves: the posterior of their coordinates."""

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
        slopes, precisions = (np.array(each) for each in zip(*projected, strict=True))
        return cls(coordinates, Paths(times, slopes, precisions))

    def with_wave(self, time: float, likelihood: ShareLikelihood, around: Array) -> ShareSeries:
        """Return the series with one wave appended."""
        projected = self.coordinates.project(likelihood, around)
        return ShareSeries(self.coordinates, self.paths.with_wave(time, *projected))


class ShareRatio(NamedTuple):
    """Ratio of sums over pieces, at every wave: a share, or a mean."""

    series: ShareSeries  # of the pieces' shares
    numerator: Array  # weight of each piece in the numerator, at every wave (T, pieces)
    denominator: Array  # weight in the denominator
