r"""Paths in time: the posterior of numbers that drift over waves of reports, and of a sudden change.

For each of K numbers u, wave t has the log-likelihood $h_t u − \tfrac12 D_t u^2$. A priori, a number's
path is Gaussian and starts anywhere (variance 4; u is on the scale of logits). It is a **random walk**,
or has a **slope that is a random walk** (an integrated Wiener process), with time from 0 to 1 over the
waves:

$$ k_1(s, t) = q \min(s, t) , \qquad
   k_2(s, t) = q \Bigl(s t + \frac{m^2 |t − s|}{2} + \frac{m^3}{3}\Bigr) ,\quad m = \min(s, t) . $$

The rate of drift, q, and the kernel are inferred from the reports: with K the kernel's matrix,

$$ \ln P(\text{reports} \mid q) = \tfrac12 h^⊤ Σ h − \tfrac12 \ln \det(I + K D) , \qquad
   Σ = (K^{-1} + D)^{-1} , $$

exactly. Paths are averaged over q = 0 and 16 others, and both kernels, by this evidence, the same for
all K numbers, so bands include uncertainty about the drift. Nothing is left to choose. A time between
waves is a wave without reports.

**Sudden change.** A step of every number at wave τ, of variance s² in u, adds $s^2 w w^⊤$ to K, where w
is 0 before τ and 1 from then on. Paths with a step are averaged with those without, at a prior
probability of .02, over s² evenly and over τ by the time since the wave before. So after a jump waves on
either side of it are still pooled, as far as their own drift allows. With $V = (K + D^{-1})^{-1}$, the
step itself, given reports, has mean and variance

$$ \hat c = \frac{s^2 a}{1 + s^2 b} ,\quad \frac{s^2}{1 + s^2 b} , \qquad
   a = w^⊤ (h − D Σ h) ,\quad b = w^⊤ V w , $$

the path moves by $\hat c\,(I − K V) w$, and the evidence gains
$\tfrac12 s^2 a^2 / (1 + s^2 b) − \tfrac12 \ln(1 + s^2 b)$.

The **p-value** of a change compares the largest evidence of a step against none, averaged over q,
kernels and s², with those of paths drawn from the model without a step, at the estimated drift, and
reported with the waves' own noise.

**Shares.** A column's law at time t is $p_t = \sum_b θ_{tb} h_b$, of **pieces** $h_b$ that are fixed and
shares θ that move. Pieces of categories are the values; of numbers and places, bumps of the law of all
waves together, whose shape within a bump is fixed. A wave's slope and information in θ are transformed
to coordinates $θ = \bar θ + B u$ in which the prior covariance of shares, $\mathrm{diag}(\bar θ) − \bar
θ \bar θ^⊤$ (logits that move alike), is the identity and the information of all waves is diagonal. The
correlation that a single wave retains there is dropped from its precision; its slope is exact, so at the
mode of the paths, slopes of all waves and of the prior cancel.

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
_DRIFTS = np.append(0.0, np.logspace(-4, 1.5, 16))
_STEP_VARIANCES = np.array([0.01, 0.03, 0.1, 0.3, 1.0])  # s²
_STEP_PROBABILITY = 0.02  # a priori
_MIN_WEIGHT = 1e-4  # of what is averaged
_MIN_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class Paths:
    """The posterior of K numbers at T times."""

    times: Array  # increasing (T,)
    slopes: Array  # h (T, K)
    precisions: Array  # D ≥ 0 (T, K)

    @cached_property
    def _unit_times(self) -> Array:
        span = self.times[-1] - self.times[0]
        return (self.times - self.times[0]) / (span or 1.0)

    @cached_property
    def _kernels(self) -> list[_Kernel]:
        roots = np.sqrt(self.precisions.T)
        found = []
        for kernel in (random_walk, random_slope):
            unit = kernel(self._unit_times)
            for drift in _DRIFTS[0 if kernel is random_walk else 1 :]:
                found.append(_Kernel.of(_START_VARIANCE + drift * unit, roots, float(drift)))
        return found

    @cached_property
    def weights(self) -> Array:
        """Weights of every drift and kernel without a step, by the evidence; 1 in sum."""
        found = np.exp(self._evidence - self._evidence.max())
        return np.asarray(found / found.sum())

    @cached_property
    def _evidence(self) -> Array:
        return np.array([each.evidence(self.slopes.T) for each in self._kernels])

    @cached_property
    def _step_indicators(self) -> Array:
        """Indicators of the times from each wave but the first on (T, T − 1)."""
        return np.tril(np.ones((len(self.times), len(self.times))))[:, 1:]

    @cached_property
    def _step_weights(self) -> list[tuple[float, Array]]:
        """Weight of every drift and kernel without a step, and weights with one (sizes, T − 1)."""
        gaps = np.diff(self._unit_times)
        priors = _STEP_PROBABILITY * gaps / max(gaps.sum(), 1e-300) / len(_STEP_VARIANCES)
        gains = [each.steps(self.slopes.T, self._step_indicators) for each in self._kernels]
        found = [*zip(self._evidence, gains, strict=True)]
        most = max(alone + each.max(initial=0.0) for alone, each in found)
        sums = [
            ((1 - _STEP_PROBABILITY) * np.exp(alone - most), priors * np.exp(alone + each - most))
            for alone, each in found
        ]
        total = sum(alone + steps.sum() for alone, steps in sums)
        return [(float(alone / total), steps / total) for alone, steps in sums]

    @property
    def drift(self) -> float:
        """Mean of q: the variance, in logits, that a path gains over all waves beside a step."""
        pairs = zip(self._step_weights, self._kernels, strict=True)
        return float(sum((alone + steps.sum()) * each.drift for (alone, steps), each in pairs))

    @cached_property
    def _moments(self) -> list[tuple[Array, Array, Array]]:
        """Weights (n,), means (n, K, T) and summed covariances (K, T, T) of each kernel with weight."""
        found = []
        for (alone, steps), each in zip(self._step_weights, self._kernels, strict=True):
            if alone + steps.sum() > _MIN_WEIGHT:
                found.append(each.stepped(self.slopes.T, self._step_indicators, alone, steps))
        return found

    @cached_property
    def mean(self) -> Array:
        """Posterior means (T, K)."""
        total = sum(weights.sum() for weights, _, _ in self._moments)
        means = [np.tensordot(weights, means, 1) for weights, means, _ in self._moments]
        return np.asarray(np.sum(means, axis=0).T / total)

    @cached_property
    def covariance(self) -> Array:
        """Posterior covariance of each number at two times (K, T, T)."""
        total, middle = sum(weights.sum() for weights, _, _ in self._moments), self.mean.T
        found = np.zeros((self.slopes.shape[1], len(self.times), len(self.times)))
        for weights, means, spread in self._moments:
            off = ((means - middle) * np.sqrt(weights)[:, None, None]).swapaxes(0, 1)
            found += spread + off.swapaxes(1, 2) @ off
        return found / total

    def with_wave(self, time: float, slopes: Array, precisions: Array) -> Paths:
        """Add a wave, of slopes and precisions (K,)."""
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
        found = np.exp(joint - highest).sum(axis=0).mean(axis=0)
        alone = np.exp(logs - logs.max()).sum()
        logs_found = np.log(np.maximum(found, 1e-300)) + highest
        return np.asarray(logs_found - np.log(alone) - logs.max())

    def p_value(self, simulations: int, seed: int) -> float:
        """Bound how often paths without a step show as large an evidence of one, by simulation."""
        rng, seen = np.random.default_rng(seed), float(self.steps().max())
        chosen = rng.choice(len(self._kernels), simulations, p=self.weights)
        beyond = 0
        for number in chosen:
            path = self._kernels[number].draw(rng)
            noise = rng.standard_normal(path.shape)
            slopes = self.precisions.T * path + np.sqrt(self.precisions.T) * noise
            beyond += float(self._steps(slopes).max()) >= seen
        return (beyond + 1) / (simulations + 1)


def random_walk(times: Array) -> Array:
    """Compute k₁ at q = 1 (T, T)."""
    return np.asarray(np.minimum.outer(times, times))


def random_slope(times: Array) -> Array:
    """Compute k₂ at q = 1 (T, T)."""
    least, gap = np.minimum.outer(times, times), np.abs(np.subtract.outer(times, times))
    return np.asarray(np.multiply.outer(times, times) + least**2 * gap / 2 + least**3 / 3)


@dataclass(frozen=True, eq=False)
class _Kernel:
    """One kernel and drift."""

    prior: Array  # K (T, T)
    posterior: Array  # Σ (K, T, T)
    inner: Array  # D^½ B⁻¹ D^½, of B = I + D^½ K D^½
    precisions: Array  # D (K, T)
    half_log_det: float
    drift: float

    @classmethod
    def of(cls, prior: Array, roots: Array, drift: float) -> _Kernel:
        """Prepare the posterior of a prior and of roots D^½ (K, T)."""
        bend = roots[:, :, None] * prior * roots[:, None, :] + np.eye(len(prior))
        inner = roots[:, :, None] * np.linalg.inv(bend) * roots[:, None, :]
        half = float(np.linalg.slogdet(bend)[1].sum()) / 2
        return cls(prior, prior - prior @ inner @ prior, inner, roots**2, half, drift)

    def mean(self, slopes: Array) -> Array:
        """Posterior means (K, T)."""
        return np.asarray((self.posterior @ slopes[:, :, None])[:, :, 0])

    def evidence(self, slopes: Array) -> float:
        """Log evidence, up to a constant of the reports."""
        return float((slopes * self.mean(slopes)).sum()) / 2 - self.half_log_det

    def _residual(self, slopes: Array, after: Array) -> tuple[Array, Array]:
        """Compute a and b of every number and wave (K, T − 1)."""
        spread = (after * (self.inner @ after)).sum(axis=1)
        # The residual of the paths: K⁻¹ Σ h = h − D Σ h.
        return (slopes - self.precisions * self.mean(slopes)) @ after, spread

    def steps(self, slopes: Array, after: Array) -> Array:
        """Compute gains of log evidence by steps (sizes, T − 1)."""
        along, spread = self._residual(slopes, after)
        bend = 1 + _STEP_VARIANCES[:, None, None] * spread
        gain = _STEP_VARIANCES[:, None, None] * along**2 / bend / 2 - np.log(bend) / 2
        return np.asarray(gain.sum(axis=1))

    def stepped(
        self, slopes: Array, after: Array, alone: float, steps: Array
    ) -> tuple[Array, Array, Array]:
        """Return weights (n,) and means (n, K, T) without a step and with each, and summed covariances.

        The weight without one is `alone`, those with one are `steps` (sizes, T − 1).
        """
        along, spread = self._residual(slopes, after)
        sizes, waves = np.nonzero(steps > _MIN_WEIGHT * (alone + steps.sum()) / steps.size)
        weights = np.append(alone, steps[sizes, waves])
        # The part of a step that remains in the path: (I − K V) w.
        ways = after.T - (self.prior @ self.inner @ after).swapaxes(1, 2)
        variance = _STEP_VARIANCES[sizes, None] / (
            1 + _STEP_VARIANCES[sizes, None] * spread[:, waves].T
        )
        moved = (variance * along[:, waves].T)[:, :, None] * ways[:, waves].swapaxes(0, 1)
        means = self.mean(slopes) + np.concatenate([np.zeros((1, *moved.shape[1:])), moved])
        roots = ways[:, waves] * np.sqrt(weights[1:, None] * variance).T[:, :, None]
        return weights, means, weights.sum() * self.posterior + roots.swapaxes(1, 2) @ roots

    def draw(self, rng: np.random.Generator) -> Array:
        """Draw paths (K, T) of the prior."""
        values, vectors = np.linalg.eigh(self.prior)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(rng.standard_normal((len(self.posterior), len(root))) @ root.T)


class ShareLikelihood(NamedTuple):
    """Log-likelihood of one column's shares in one wave, to second order around given shares."""

    slope: Array  # (pieces,)
    information: Array  # (pieces, pieces)


@dataclass(frozen=True, eq=False)
class ShareCoordinates:
    """Coordinates of one column's shares, which move independently."""

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
        """Return shares θ (pieces,) at coordinates u; none below 0."""
        found = np.maximum(self.shares + self.basis @ path, _MIN_SHARE)
        return np.asarray(found / found.sum())

    def project(self, likelihood: ShareLikelihood, path: Array) -> tuple[Array, Array]:
        """Transform a likelihood around u = `path` to h and D (K,)."""
        curved = likelihood.information @ self.basis
        precision = np.maximum((self.basis * curved).sum(axis=0), 0.0)
        return self.basis.T @ likelihood.slope + precision * path, precision

    def coordinates_of(self, shares: Array) -> Array:
        """Return coordinates u (K,) of shares (pieces,)."""
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
        """Transform each wave's likelihood around paths u (T, K)."""
        projected = map(coordinates.project, likelihoods, around)
        slopes, precisions = (np.array(each) for each in zip(*projected, strict=True))
        return cls(coordinates, Paths(times, slopes, precisions))

    def with_wave(self, time: float, likelihood: ShareLikelihood, around: Array) -> ShareSeries:
        """Append one wave."""
        projected = self.coordinates.project(likelihood, around)
        return ShareSeries(self.coordinates, self.paths.with_wave(time, *projected))


class ShareRatio(NamedTuple):
    """Ratio of sums over pieces, at every wave: a share, or a mean."""

    series: ShareSeries  # of the pieces' shares
    numerator: Array  # weight of each piece in the numerator, at every wave (T, pieces)
    denominator: Array  # weight in the denominator
