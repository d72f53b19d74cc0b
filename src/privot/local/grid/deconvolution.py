r"""Penalized maximum likelihood on a grid: the density behind reports, and averages by evidence.

**Weights.** A density $e^{g}$ at the nodes gives its hats the weights $p = v e^{g} / \sum v e^{g}$, $v$
a hat's volume: 1, and half of it at every end. Missing values have a logarithm too, as if of all hats
together.

**A fixed penalty** (`deconvolve`). With counts $n_y$ of reports, and probabilities $(A p)_y$ that a
channel gives them, the objective to maximize is

$$ \sum_y n_y \ln (A p)_y − \frac{λ}{2} \int |∇g|^2 . $$

The likelihood alone is maximal at spikes: deconvolution is ill-posed, and where the density is low, it
fits as many as the noise of the reports allows. Penalizing the **logarithm** distinguishes a curve,
whose flanks are steep once, from a few people far from it, who would be steep everywhere; in the plane
the penalty of a bump is the same whatever its size. The strength **λ = 0.1** is a number of nats, the
same for all ε and n: a prior, chosen on public synthetic people (`python -m studies reports.priors`).

Where a reference density was learned from earlier people, g in the penalty is the logarithm of the
**ratio** to it: reports decide what differs, and without reports the density is the reference.

The maximum is found by a quasi-Newton method in coordinates in which the penalty is nearly isotropic:
the cosines of the grid, each divided by the root of its roughness.

**An average over penalties**, on the line (`average_by_evidence`). The logarithms g have a Gaussian
prior of precision $λ \int (g^{(m)})^2$, which leaves polynomials below degree m free and does not
constrain g at the bounds: a density may be highest there. With **m = 1** it is flat where reports have
no information, with **m = 2** it falls or rises exponentially. For each m and λ the mode of g is found
by Fisher scoring, and Laplace's approximation gives the prior's **evidence**,

$$ \ln P(\text{reports} \mid m, λ) ≈ ℓ(\hat g) − \tfrac12 \hat g^⊤ Λ \hat g + \tfrac12 \ln \det Λ
   − \tfrac12 \ln \det (I(\hat g) + Λ) , $$

Λ the prior's precision, I the Fisher information of g. The densities are averaged by their evidence:
nothing is left to choose, for any ε and n, but orders: on public synthetic people
(`python -m studies reports.priors`).

Everything is deterministic. Privacy: a function of the reports' counts, hence post-processing.

References:
    Silverman, *On the estimation of a probability density function by the maximum penalized likelihood
    method* (1982). Hjort, Glad, *Nonparametric density estimation with a parametric start* (1995). Liu,
    Nocedal, *On the limited memory BFGS method for large scale optimization* (1989). MacKay, *Bayesian
    interpolation* (1992).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.local.grid.channels import GridChannel
from privot.schema.domains import Array
from privot.training import FitMonitor

STRENGTH = 0.1  # λ
MAX_STEPS = 1000
_TOLERANCE = 0.01  # nats gained by a step, over all reports, below which it is the last
_MEMORY = 20  # pairs of L-BFGS
_FREE_PRECISION = 3.0  # of the coordinates without a penalty
_FLOOR = 1e-300  # of a density relative to its maximum

ORDERS = (1, 2)  # m
_STRENGTHS = np.logspace(2, -10, 25)  # λ, until the evidence has dropped
_EVIDENCE_DROP = 8.0  # nats
_MAX_SHAPES = 128  # the smoothest eigenvectors, of which g is a sum
_FREE_STDDEV = 5.0  # of what no λ weighs: slope, share of missing values
_MAX_EVIDENCE_STEPS = 200
_EVIDENCE_TOLERANCE = 1e-3  # nats
_MAX_CHANGE = 3.0  # of g in a step


@dataclass(frozen=True, eq=False)
class Hats:
    """Hat functions of a grid: weights from logarithms of a density, and back."""

    volumes: Array  # flat, of the nodes; then of missing values, if any; 0 outside the domain

    @classmethod
    def of(cls, nodes: NDArray[np.bool_], num_weights: int) -> Hats:
        """Build the hats of the allowed nodes (K+1, …, K+1), of `num_weights` weights.

        Examples:
            >>> Hats.of(np.ones(3, bool), 4).volumes
            array([0.5, 1. , 0.5, 2. ])
        """
        one = np.ones(len(nodes))
        one[[0, -1]] = 0.5
        volumes = (reduce(np.multiply.outer, [one] * nodes.ndim) * nodes).ravel()
        return cls(np.append(volumes, np.full(num_weights - nodes.size, volumes.sum())))

    def weights(self, logs: Array) -> Array:
        """Return weights, 1 in sum, of logarithms of the density."""
        found = self.volumes * np.exp(logs - logs.max())
        return np.asarray(found / found.sum())

    def logs(self, weights: Array) -> Array:
        """Return logarithms that have these weights, the largest 0, none below −690.

        Examples:
            >>> hats = Hats.of(np.ones(3, bool), 3)
            >>> hats.weights(hats.logs(np.array([0.2, 0.6, 0.2])))
            array([0.2, 0.6, 0.2])
        """
        densities = weights / np.where(self.volumes > 0, self.volumes, 1.0)
        return np.asarray(np.log(np.maximum(densities / densities.max(), _FLOOR)))


@dataclass(frozen=True, eq=False)
class GridFit:
    """Weights of a fitted density."""

    weights: Array  # flat, as a channel takes them, 1 in sum
    steps: int  # number of steps made
    evidence: float = np.nan  # log evidence of an average over priors, up to a constant


def roughness(logs: Array) -> tuple[float, Array]:
    r"""Compute $\int |∇g|^2 / 2$ of g at all nodes (K+1, …, K+1), and its gradient.

    Examples:
        >>> axis = np.linspace(-1, 1, 65)
        >>> round(roughness(np.add.outer(3 * axis, 0 * axis))[0])  # 3² / 2, over a square of 4
        18
    """
    volume = (2 / (len(logs) - 1)) ** (logs.ndim - 2)
    total, slope = 0.0, np.zeros_like(logs)
    for axis in range(logs.ndim):
        rise = np.diff(logs, axis=axis)
        total += float((rise**2).sum())
        edge = [(1, 1) if a == axis else (0, 0) for a in range(logs.ndim)]
        slope -= np.diff(np.pad(rise, edge), axis=axis)
    return total * volume / 2, slope * volume


@dataclass(frozen=True, eq=False)
class _CosineCoordinates:
    """Coordinates in which the penalty is nearly isotropic."""

    shape: tuple[int, ...]  # shape of the grid
    strength: float  # λ

    @cached_property
    def _scales(self) -> Array:
        last = self.shape[0] - 1
        bends = 2 - 2 * np.cos(np.pi * np.arange(last + 1) / last)
        rough = reduce(np.add.outer, [bends] * len(self.shape)) * (2 / last) ** (
            len(self.shape) - 2
        )
        return np.asarray((_FREE_PRECISION + self.strength * rough) ** -0.5)

    def __call__(self, flat: Array) -> Array:
        """Map coordinates to logarithms, or gradients back; entries that are no node's stay."""
        size = self._scales.size
        wide = self._scales * scipy.fft.dctn(flat[:size].reshape(self.shape), type=1, norm="ortho")
        return np.append(scipy.fft.idctn(wide, type=1, norm="ortho").ravel(), flat[size:])


@dataclass(frozen=True, eq=False)
class _Objective:
    """Objective to minimize, in coordinates of the logarithm of the ratio to a reference."""

    channel: GridChannel  # the reports
    nodes: NDArray[np.bool_]  # mask of the allowed nodes (K+1, …, K+1)
    strength: float  # λ
    reference: Array  # logarithms

    @cached_property
    def hats(self) -> Hats:
        return Hats.of(self.nodes, len(self.reference))

    @cached_property
    def cosines(self) -> _CosineCoordinates:
        return _CosineCoordinates(self.nodes.shape, self.strength)

    def weights(self, at: Array) -> Array:
        return self.hats.weights(self.reference + self.cosines(at))

    def __call__(self, at: Array) -> tuple[float, Array]:
        ratio = self.cosines(at)
        weights = self.hats.weights(self.reference + ratio)
        counts, law = self.channel.counts, self.channel.forward(weights)
        sent = counts > 0
        rough, rise = roughness(ratio[: self.nodes.size].reshape(self.nodes.shape))
        slope = weights * (counts.sum() - self.channel.back(counts / law))
        slope[: self.nodes.size] += self.strength * rise.ravel()
        misfit = self.strength * rough - float(counts[sent] @ np.log(law[sent]))
        return misfit, self.cosines(slope)


def deconvolve(
    channel: GridChannel,
    nodes: NDArray[np.bool_],
    *,
    strength: float = STRENGTH,
    reference: Array | None = None,
    max_steps: int | None = None,
    tolerance: float = _TOLERANCE,
    monitor: FitMonitor | None = None,
) -> GridFit:
    """Fit weights of the allowed nodes, and of missing values if any, by penalized likelihood.

    Arguments:
        channel: The reports.
        nodes: Mask of the allowed nodes (K+1, …, K+1).
        strength: λ.
        reference: Weights to whose ratio the penalty applies; equal densities by default.
        max_steps: Most steps, 1000 by default.
        tolerance: A step that gains fewer nats, over all reports, is the last.
        monitor: Says after every step whether to stop.
    """
    hats = Hats.of(nodes, len(channel.back(channel.counts)))
    around = np.zeros(len(hats.volumes)) if reference is None else hats.logs(reference)
    misfit = _Objective(channel, nodes, strength, around)
    counts = channel.counts[channel.counts > 0]
    floor = -float(counts @ np.log(counts / counts.sum()))  # of the objective, for any density

    def stop_here(at: Array) -> None:
        if monitor is not None and monitor.over():
            raise StopIteration

    found = scipy.optimize.minimize(
        misfit,
        np.zeros(len(around)),
        jac=True,
        method="L-BFGS-B",
        callback=stop_here,
        options={
            "maxiter": max_steps or MAX_STEPS,
            "maxfun": 10**9,
            "maxcor": _MEMORY,
            "ftol": tolerance / max(floor, 1.0),
            "gtol": 0.0,
        },
    )
    return GridFit(misfit.weights(found.x), int(found.nit))


@dataclass(frozen=True, eq=False)
class SmoothPrior:
    """Prior of one order: g is a sum of shapes, a missing value's logarithm one of its own."""

    basis: Array  # shapes as columns (weights, shapes), the missing share's last
    roughness: Array  # $\int (g^{(m)})^2$ of each shape; 0 of those that no strength weighs
    free_precision: Array  # precision of those; 0 of the others

    @classmethod
    def of(cls, order: int, axis: Array, weights: int, peaks: Sequence[int] = ()) -> SmoothPrior:
        """Build the prior of the smoothest shapes of an order; weights that are no node's are free.

        Arguments:
            order: m.
            axis: Places of the nodes in [−1, 1], increasing.
            weights: Number of weights, of the nodes and others.
            peaks: Nodes that may be off the curve: each has a logarithm in addition.
        """
        nodes = len(axis)
        polynomials = np.linalg.qr(np.vander(axis, order, increasing=True))[0][:, 1:]
        rough, shapes = np.linalg.eigh(roughness_of(order, axis))
        rough, shapes = rough[order:_MAX_SHAPES], shapes[:, order:_MAX_SHAPES]
        own = np.eye(weights)[:, [*peaks, *range(nodes, weights)]]
        flat = np.zeros((weights, order - 1 + len(rough)))
        flat[:nodes] = np.hstack([polynomials, shapes])
        basis = np.hstack([flat[:, : order - 1], own, flat[:, order - 1 :]])
        free = np.zeros(basis.shape[1])
        free[: order - 1], free[order - 1 : order - 1 + own.shape[1]] = nodes**-1.0, 1.0
        none = np.zeros(order - 1 + own.shape[1])
        return cls(basis, np.append(none, rough), free / _FREE_STDDEV**2)


def roughness_of(order: int, axis: Array) -> Array:
    r"""Return the matrix of $\int (g^{(m)})^2$ in the values of g at places (n,), for m = 1 or 2.

    Examples:
        >>> axis = np.array([-1.0, 0.0, 0.5, 1.0])
        >>> line, bend = 3 * axis, axis**2
        >>> round(float(line @ roughness_of(1, axis) @ line)), round(bend @ roughness_of(2, axis) @ bend)
        (18, 5)
    """
    gaps = np.diff(axis)
    slopes = np.diff(np.eye(len(axis)), axis=0) / gaps[:, None]
    for _ in range(order - 1):
        gaps = (gaps[1:] + gaps[:-1]) / 2
        slopes = np.diff(slopes, axis=0) / gaps[:, None]
    return np.asarray((slopes.T * gaps) @ slopes)


class Likelihood(Protocol):
    """Log-likelihood of reports as a function of weights."""

    @property
    def hats(self) -> Hats:
        """Hats of the weights."""

    def value(self, weights: Array) -> float:
        """Compute the log-likelihood, up to a constant."""

    def slope(self, weights: Array) -> Array:
        """Compute the gradient in the weights."""

    def information(self, weights: Array, change: Array) -> Array:
        """Compute the Fisher information along changes of the weights, the columns of `change`."""


@dataclass(frozen=True, eq=False)
class CountLikelihood:
    """Likelihood of counted reports."""

    counts: Array  # of reports
    law: Array  # P(report | weight), (reports, weights)
    hats: Hats  # of the weights

    def value(self, weights: Array) -> float:
        """See `Likelihood`."""
        return float(self.counts @ np.log(self.law @ weights))

    def slope(self, weights: Array) -> Array:
        """See `Likelihood`."""
        return np.asarray(self.law.T @ (self.counts / (self.law @ weights)))

    def information(self, weights: Array, change: Array) -> Array:
        """See `Likelihood`."""
        moved = self.law @ change
        return np.asarray((moved.T * (self.counts.sum() / (self.law @ weights))) @ moved)


def ascend(
    likelihood: Likelihood, prior: SmoothPrior, strength: float, start: Array, max_steps: int
) -> tuple[Array, float, int]:
    """Find the most likely coefficients by Fisher scoring; return them, their evidence and the steps."""
    precision = strength * prior.roughness + prior.free_precision
    basis, hats = prior.basis, likelihood.hats

    def value(at: Array) -> float:
        return likelihood.value(hats.weights(basis @ at)) - float(precision @ at**2 / 2)

    at, reached, done, gain = start, value(start), 0, np.inf
    while True:
        weights = hats.weights(basis @ at)
        change = weights[:, None] * (basis - weights @ basis)
        slope = change.T @ likelihood.slope(weights) - precision * at
        factor = scipy.linalg.cho_factor(
            likelihood.information(weights, change) + np.diag(precision)
        )
        step = scipy.linalg.cho_solve(factor, slope)
        gain = float(slope @ step)
        if gain < _EVIDENCE_TOLERANCE or done == max_steps:
            break
        step *= min(1.0, _MAX_CHANGE / np.abs(basis @ step).max())
        while (after := value(at + step)) < reached and np.abs(step).max() > 1e-9:
            step = step / 2
        at, reached, done = at + step, after, done + 1
    volume = np.log(np.diag(factor[0])).sum() - np.log(precision).sum() / 2
    return at, reached - float(volume), done


def average(
    likelihood: Likelihood,
    priors: Sequence[SmoothPrior],
    *,
    strengths: Sequence[float] | Array = _STRENGTHS,
    max_steps: int = _MAX_EVIDENCE_STEPS,
    monitor: FitMonitor | None = None,
) -> GridFit:
    """Average fits by their evidence, over all decreasing strengths λ of every prior.

    Each strength takes at most `max_steps`; after each, `monitor` says whether to stop.
    """
    found, evidence, steps = list[Array](), list[float](), 0
    for prior in priors:
        at, best = np.zeros(prior.basis.shape[1]), -np.inf
        for strength in strengths:
            at, reached, done = ascend(likelihood, prior, strength, at, max_steps)
            steps += done
            found.append(likelihood.hats.weights(prior.basis @ at))
            evidence.append(reached)
            best = max(best, reached)
            if reached < best - _EVIDENCE_DROP or (monitor is not None and monitor.over()):
                break
    shares = np.exp(np.array(evidence) - max(evidence))
    weights = shares @ np.array(found) / shares.sum()
    return GridFit(weights, steps, max(evidence) + float(np.log(shares.sum())))


def average_by_evidence(
    channel: GridChannel,
    *,
    orders: Sequence[int] = ORDERS,
    max_steps: int | None = None,
    monitor: FitMonitor | None = None,
) -> GridFit:
    """Fit weights of the nodes of a line, and of missing values if any, averaged by evidence.

    `orders` are the priors' m; `max_steps` and `monitor` are those of `average`.
    """
    size, nodes = len(channel.back(channel.counts)), channel.spacings + 1
    law = np.stack([channel.forward(one) for one in np.eye(size)], axis=1)
    likelihood = CountLikelihood(channel.counts, law, Hats.of(np.ones(nodes, bool), size))
    priors = [SmoothPrior.of(order, np.linspace(-1, 1, nodes), size) for order in orders]
    limit = max_steps or _MAX_EVIDENCE_STEPS
    return average(likelihood, priors, max_steps=limit, monitor=monitor)
