r"""Paths in time: what waves of reports say of numbers that move slowly, and of a sudden change.

Of each of K numbers u, wave t says $h_t u − \tfrac12 D_t u^2$ on the scale of log-likelihoods. Before
any report, a number's path is Gaussian and starts anywhere (variance 4; u is on the scale of logits). It
is a **random walk**, or has a **slope that is a random walk** (an integrated Wiener process), with time
from 0 to 1 over the waves:

$$ k_1(s, t) = q \min(s, t) , \qquad
   k_2(s, t) = q \Bigl(s t + \frac{m^2 |t − s|}{2} + \frac{m^3}{3}\Bigr) ,\quad m = \min(s, t) . $$

How fast numbers move, q, and which of both it is, the reports tell: with K the kernel's matrix,

$$ \ln P(\text{reports} \mid q) = \tfrac12 h^⊤ Σ h − \tfrac12 \ln \det(I + K D) , \qquad
   Σ = (K^{-1} + D)^{-1} , $$

exactly. Paths are averaged over q = 0 and 16 others, and both kernels, by this evidence, the same for
all K numbers; so that bands hold what is not known of the drift. Nothing is left to choose. A time
between waves is a wave without reports.

**Sudden change.** A step of every number at wave τ, of variance s² in u, adds $s^2 w w^⊤$ to K, where w
is 0 before τ and 1 from then on. Paths with one are averaged with those without, at a probability of
.02 before any report, over s² evenly and over τ by the time since the wave before. So after a jump waves
on either side of it are still pooled, as far as their own drift allows. With
$V = (K + D^{-1})^{-1}$, the step itself, given reports, has mean and variance

$$ \hat c = \frac{s^2 a}{1 + s^2 b} ,\quad \frac{s^2}{1 + s^2 b} , \qquad
   a = w^⊤ (h − D Σ h) ,\quad b = w^⊤ V w , $$

the path moves by $\hat c\,(I − K V) w$, and the evidence gains
$\tfrac12 s^2 a^2 / (1 + s^2 b) − \tfrac12 \ln(1 + s^2 b)$.

The **p-value** of a change compares the largest evidence of a step against none, averaged over q,
kernels and s², with those of paths drawn from the model without a step, at the drift that it learned,
and reported with the waves' own noise.

Privacy: a function of reports, hence post-processing.

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

_ANYWHERE = 4.0
_DRIFTS = np.append(0.0, np.logspace(-4, 1.5, 16))
_STEPS = np.array([0.01, 0.03, 0.1, 0.3, 1.0])  # s²
_SUDDEN = 0.02  # probability of a step before any report
_LEAST = 1e-4  # weight of what is averaged


@dataclass(frozen=True, eq=False)
class Paths:
    """The posterior of K numbers at T times.

    Arguments:
        times: In increasing order (T,).
        slopes: h (T, K).
        precisions: D ≥ 0 (T, K).
    """

    times: Array
    slopes: Array
    precisions: Array

    @cached_property
    def _scaled(self) -> Array:
        span = self.times[-1] - self.times[0]
        return (self.times - self.times[0]) / (span or 1.0)

    @cached_property
    def _candidates(self) -> list[_Candidate]:
        roots = np.sqrt(self.precisions.T)
        found = []
        for kernel in (random_walk, random_slope):
            unit = kernel(self._scaled)
            for drift in _DRIFTS[0 if kernel is random_walk else 1 :]:
                found.append(_Candidate.of(_ANYWHERE + drift * unit, roots, float(drift)))
        return found

    @cached_property
    def weights(self) -> Array:
        """Of every drift and kernel without a step, by the evidence; 1 in sum."""
        found = np.exp(self._logs - self._logs.max())
        return np.asarray(found / found.sum())

    @cached_property
    def _logs(self) -> Array:
        return np.array([each.evidence(self.slopes.T) for each in self._candidates])

    @cached_property
    def _after(self) -> Array:
        """1 from each wave but the first on (T, T − 1)."""
        return np.tril(np.ones((len(self.times), len(self.times))))[:, 1:]

    @cached_property
    def _shares(self) -> list[tuple[float, Array]]:
        """Of every drift and kernel, the weight without a step and those with one (sizes, T − 1)."""
        gaps = np.diff(self._scaled)
        priors = _SUDDEN * gaps / max(gaps.sum(), 1e-300) / len(_STEPS)
        gains = [each.steps(self.slopes.T, self._after) for each in self._candidates]
        found = [*zip(self._logs, gains, strict=True)]
        most = max(alone + each.max(initial=0.0) for alone, each in found)
        sums = [
            ((1 - _SUDDEN) * np.exp(alone - most), priors * np.exp(alone + each - most))
            for alone, each in found
        ]
        total = sum(alone + steps.sum() for alone, steps in sums)
        return [(float(alone / total), steps / total) for alone, steps in sums]

    @property
    def drift(self) -> float:
        """The mean of q: the variance, in logits, that a path gains over all waves beside a step."""
        pairs = zip(self._shares, self._candidates, strict=True)
        return float(sum((alone + steps.sum()) * each.drift for (alone, steps), each in pairs))

    @cached_property
    def _parts(self) -> list[tuple[Array, Array, Array]]:
        """Weights (n,), means (n, K, T) and the mean of covariances (K, T, T) of each kernel kept."""
        found = []
        for (alone, steps), each in zip(self._shares, self._candidates, strict=True):
            if alone + steps.sum() > _LEAST:
                found.append(each.stepped(self.slopes.T, self._after, alone, steps))
        return found

    @cached_property
    def mean(self) -> Array:
        """(T, K)."""
        total = sum(weights.sum() for weights, _, _ in self._parts)
        means = [np.tensordot(weights, means, 1) for weights, means, _ in self._parts]
        return np.asarray(np.sum(means, axis=0).T / total)

    @cached_property
    def covariance(self) -> Array:
        """Of a number at two times (K, T, T)."""
        total, middle = sum(weights.sum() for weights, _, _ in self._parts), self.mean.T
        found = np.zeros((self.slopes.shape[1], len(self.times), len(self.times)))
        for weights, means, spread in self._parts:
            off = ((means - middle) * np.sqrt(weights)[:, None, None]).swapaxes(0, 1)
            found += spread + off.swapaxes(1, 2) @ off
        return found / total

    def at(self, time: float) -> tuple[Array, Array]:
        """Means and variances (K,) at a time between the first and the last."""
        place = int(np.searchsorted(self.times, time))
        if self.times[place] == time:
            return self.mean[place], self.covariance[:, place, place]
        nothing = np.zeros((1, self.slopes.shape[1]))
        wider = Paths(
            np.insert(self.times, place, time),
            np.insert(self.slopes, place, nothing, axis=0),
            np.insert(self.precisions, place, nothing, axis=0),
        )
        return wider.mean[place], wider.covariance[:, place, place]

    def steps(self) -> Array:
        """Log evidence of a step at each wave but the first, against none (T − 1,)."""
        return self._steps(self.slopes.T)

    def _steps(self, slopes: Array) -> Array:
        logs = np.array([each.evidence(slopes) for each in self._candidates])
        gains = np.array([each.steps(slopes, self._after) for each in self._candidates])
        joint = logs[:, None, None] + gains
        highest = joint.max()
        found = np.exp(joint - highest).sum(axis=0).mean(axis=0)
        alone = np.exp(logs - logs.max()).sum()
        logs_found = np.log(np.maximum(found, 1e-300)) + highest
        return np.asarray(logs_found - np.log(alone) - logs.max())

    def p_value(self, simulations: int, seed: int) -> float:
        """How often paths without a step show as large an evidence of one, at most."""
        rng, seen = np.random.default_rng(seed), float(self.steps().max())
        chosen = rng.choice(len(self._candidates), simulations, p=self.weights)
        beyond = 0
        for number in chosen:
            path = self._candidates[number].draw(rng)
            noise = rng.standard_normal(path.shape)
            told = self.precisions.T * path + np.sqrt(self.precisions.T) * noise
            beyond += float(self._steps(told).max()) >= seen
        return (beyond + 1) / (simulations + 1)


def random_walk(times: Array) -> Array:
    """k₁ at q = 1 (T, T)."""
    return np.asarray(np.minimum.outer(times, times))


def random_slope(times: Array) -> Array:
    """k₂ at q = 1 (T, T)."""
    least, gap = np.minimum.outer(times, times), np.abs(np.subtract.outer(times, times))
    return np.asarray(np.multiply.outer(times, times) + least**2 * gap / 2 + least**3 / 3)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """One kernel and drift."""

    prior: Array  # K (T, T)
    posterior: Array  # Σ (K, T, T)
    inner: Array  # D^½ B⁻¹ D^½, of B = I + D^½ K D^½
    precisions: Array  # D (K, T)
    half_log_det: float
    drift: float

    @classmethod
    def of(cls, prior: Array, roots: Array, drift: float) -> _Candidate:
        """Of D^½ (K, T)."""
        bend = roots[:, :, None] * prior * roots[:, None, :] + np.eye(len(prior))
        inner = roots[:, :, None] * np.linalg.inv(bend) * roots[:, None, :]
        half = float(np.linalg.slogdet(bend)[1].sum()) / 2
        return cls(prior, prior - prior @ inner @ prior, inner, roots**2, half, drift)

    def mean(self, slopes: Array) -> Array:
        """(K, T)."""
        return np.asarray((self.posterior @ slopes[:, :, None])[:, :, 0])

    def evidence(self, slopes: Array) -> float:
        """Up to a constant of the reports."""
        return float((slopes * self.mean(slopes)).sum()) / 2 - self.half_log_det

    def _unexplained(self, slopes: Array, after: Array) -> tuple[Array, Array]:
        """Of every number and wave, a and b (K, T − 1)."""
        spread = (after * (self.inner @ after)).sum(axis=1)
        # What the paths leave unexplained: K⁻¹ Σ h = h − D Σ h.
        return (slopes - self.precisions * self.mean(slopes)) @ after, spread

    def steps(self, slopes: Array, after: Array) -> Array:
        """Gains of log evidence by steps (sizes, T − 1)."""
        along, spread = self._unexplained(slopes, after)
        bend = 1 + _STEPS[:, None, None] * spread
        gain = _STEPS[:, None, None] * along**2 / bend / 2 - np.log(bend) / 2
        return np.asarray(gain.sum(axis=1))

    def stepped(
        self, slopes: Array, after: Array, alone: float, steps: Array
    ) -> tuple[Array, Array, Array]:
        """Weights (n,) and means (n, K, T) without a step and with each, and the sum of covariances.

        The weight without one is `alone`, those with one are `steps` (sizes, T − 1).
        """
        along, spread = self._unexplained(slopes, after)
        sizes, waves = np.nonzero(steps > _LEAST * (alone + steps.sum()) / steps.size)
        weights = np.append(alone, steps[sizes, waves])
        # Of a step, what the path keeps: (I − K V) w.
        ways = after.T - (self.prior @ self.inner @ after).swapaxes(1, 2)
        variance = _STEPS[sizes, None] / (1 + _STEPS[sizes, None] * spread[:, waves].T)
        moved = (variance * along[:, waves].T)[:, :, None] * ways[:, waves].swapaxes(0, 1)
        means = self.mean(slopes) + np.concatenate([np.zeros((1, *moved.shape[1:])), moved])
        roots = ways[:, waves] * np.sqrt(weights[1:, None] * variance).T[:, :, None]
        return weights, means, weights.sum() * self.posterior + roots.swapaxes(1, 2) @ roots

    def draw(self, rng: np.random.Generator) -> Array:
        """Paths (K, T) of the prior."""
        values, vectors = np.linalg.eigh(self.prior)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(rng.standard_normal((len(self.posterior), len(root))) @ root.T)


# What moves from wave to wave: shares of pieces of a column, and what a wave's reports say of them.
#
# A column's law at time t is $p_t = \sum_b θ_{tb} h_b$, of **pieces** $h_b$ that stay and shares θ
# that move. Of categories, pieces are the values; of numbers and places, bumps of the law that all
# waves together teach, so that within a bump people lie as they always do.
#
# A wave's slope and information by θ are turned to coordinates $θ = \bar θ + B u$ in which the prior
# covariance of shares, $\mathrm{diag}(\bar θ) − \bar θ \bar θ^⊤$ (logits that move alike), is the
# identity and the information of all waves is diagonal. What correlation a single wave has left there
# is dropped from its precision; its slope is exact, so where paths end up, slopes of all waves and of
# the prior cancel.
#
# Privacy: functions of reports, hence post-processing.


_LEAST_SHARE = 1e-9  # of shares


class Pieces(NamedTuple):
    """Of one column.

    Arguments:
        law: Probabilities of values in each piece (values, pieces).
        shares: Of the pieces in all waves together (pieces,).
    """

    law: Array
    shares: Array


class Told(NamedTuple):
    """What a wave says of one column's shares, around those that it was asked at."""

    slope: Array  # (pieces,)
    information: Array  # (pieces, pieces)


@dataclass(frozen=True, eq=False)
class Moving:
    """One column's shares, in coordinates that move apart.

    Arguments:
        shares: θ̄ of the pieces (pieces,).
        basis: B (pieces, K).
    """

    shares: Array
    basis: Array

    @classmethod
    def of(cls, shares: Array, information: Array) -> Self:
        """With the basis in which the prior is round and this information diagonal.

        Examples:
            >>> one = Moving.of(np.array([0.5, 0.5]), np.diag([4.0, 4.0]))
            >>> abs(one.basis).round(2).tolist()
            [[0.5], [0.5]]
        """
        shares = np.maximum(shares, _LEAST_SHARE) / np.maximum(shares, _LEAST_SHARE).sum()
        values, vectors = np.linalg.eigh(np.diag(shares) - np.outer(shares, shares))
        kept = values > 1e-10 * values.max()
        root = vectors[:, kept] * np.sqrt(values[kept])
        _, turn = np.linalg.eigh(root.T @ information @ root)
        return cls(shares, root @ turn)

    def at(self, path: Array) -> Array:
        """Shares θ (pieces,) where u is `path`; none below 0."""
        found = np.maximum(self.shares + self.basis @ path, _LEAST_SHARE)
        return np.asarray(found / found.sum())

    def turned(self, told: Told, path: Array) -> tuple[Array, Array]:
        """What was told around u = `path`, as h and D (K,)."""
        curved = told.information @ self.basis
        precision = np.maximum((self.basis * curved).sum(axis=0), 0.0)
        return self.basis.T @ told.slope + precision * path, precision

    def path_to(self, shares: Array) -> Array:
        """The coordinates u (K,) of shares (pieces,)."""
        return np.asarray(np.linalg.lstsq(self.basis, shares - self.shares, rcond=None)[0])


@dataclass(frozen=True, eq=False)
class Course:
    """One column's coordinates over the waves.

    Arguments:
        moving: What the coordinates are.
        times: Of the waves (T,).
        slopes: h (T, K).
        precisions: D (T, K).
    """

    moving: Moving
    times: Array
    slopes: Array
    precisions: Array

    @classmethod
    def of(
        cls, moving: Moving, times: Array, told: Sequence[Told], around: Sequence[Array] | Array
    ) -> Self:
        """Of what each wave told around paths u (T, K)."""
        turned = [moving.turned(each, path) for each, path in zip(told, around, strict=True)]
        slopes, precisions = (np.array(each) for each in zip(*turned, strict=True))
        return cls(moving, times, slopes, precisions)

    @cached_property
    def paths(self) -> Paths:
        """Of the coordinates."""
        return Paths(self.times, self.slopes, self.precisions)

    def with_wave(self, time: float, told: Told, around: Array) -> Self:
        """One wave later."""
        slope, precision = self.moving.turned(told, around)
        return type(self)(
            self.moving,
            np.append(self.times, time),
            np.vstack([self.slopes, slope]),
            np.vstack([self.precisions, precision]),
        )


def basis_of(shares: Array, told: Sequence[Told]) -> Moving:
    """Coordinates in which what all waves told is diagonal."""
    return Moving.of(shares, np.sum([each.information for each in told], axis=0))


class Followed(NamedTuple):
    """A ratio of sums over pieces, at every wave: a share, or a mean.

    Arguments:
        course: Of the pieces.
        part: What each piece counts above, at every wave (T, pieces).
        whole: And below.
    """

    course: Course
    part: Array
    whole: Array
